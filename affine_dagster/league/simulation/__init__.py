"""Leagues by the thousand: the rule's arithmetic on latent skill, vectorised, for NumPy and JAX alike."""
