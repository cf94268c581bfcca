"""The command `affine`."""
