"""What may enter: a submission judged from cheap facts to dear ones, with a reason, whose fault it is and what to do."""

from affine_dagster.admission.batch import admit, genesis_templates
from affine_dagster.admission.files import load_names
from affine_dagster.admission.judging import Admitted, judge

__all__ = ["Admitted", "admit", "genesis_templates", "judge", "load_names"]
