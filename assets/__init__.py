"""What exists: one file an asset group. Thin: an asset reads tables, calls the library, writes tables, and shows what it did."""
