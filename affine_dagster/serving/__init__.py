"""Serving: running a model on prompts. All sampling parameters are ours; nothing of a submitted file is executed."""
