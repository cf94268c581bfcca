"""The chain: a narrow port with plain values, its adapters, and what is read from a chain into tables."""
