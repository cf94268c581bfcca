"""Synthetic populations of small real models: the demo, the tests and the benchmarks draw from here."""
