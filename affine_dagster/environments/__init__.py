"""Environments: sources of seeded, verifiable tasks. One family a file."""
