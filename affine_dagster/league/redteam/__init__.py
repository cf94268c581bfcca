"""The red-team league: simulated miners with latent skill and a strategy each, played through the real kinship, plan and rules.

What must not go in: real models (the league's other files), and any rule or defence of our own: this room only attacks.
"""
