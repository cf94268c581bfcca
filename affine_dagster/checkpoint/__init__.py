"""A checkpoint folder in Hugging Face layout, read as hostile bytes: headers, tensors, digests, template, tokenizer signature."""
