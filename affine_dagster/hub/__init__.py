"""The hub: where submitted model repositories are read from."""
