"""A checkpoint folder in Hugging Face layout, read as hostile bytes: headers, tensors, digests, template, tokenizer signature.

Nothing is imported here: the probe's child (``admission/probe.py``) needs the template and the tokenizer alone.
"""
