"""The published snapshot of an epoch: one number everywhere, each with its epoch."""
