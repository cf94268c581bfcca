"""A checkpoint folder in Hugging Face layout, read as hostile bytes: headers, tensors, digests, template, tokenizer signature."""

from affine_dagster.checkpoint.identity import CheckpointIdentity, identity
from affine_dagster.checkpoint.template import effective_template, render

__all__ = ["CheckpointIdentity", "effective_template", "identity", "render"]
