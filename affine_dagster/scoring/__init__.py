"""Evidence, frontier, credits, weights: pure functions of frames and settings."""
