"""A league around a language model that none of us made: SmolLM2-135M-Instruct, children of it that are tuned here, and copies."""
