"""Findings on an epoch as a whole: owners, coverage, faults alike."""
