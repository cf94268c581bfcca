"""What may enter: a submission judged from cheap facts to dear ones, with a reason, whose fault it is and what to do.

Nothing is imported here: the probe's child starts once a submission, and would load polars and the settings for nothing.
"""
