"""What the evaluation's tests share; the parts themselves stand in ``tests/support/evaluation_parts.py``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
