"""What the README and the documents quote in figures: ``python -m benchmarks [NAMES]``, or ``make bench`` for all.

Each module without a leading underscore is one benchmark: its docstring's first line says what it measures, and its ``run``
returns figures (``_figures.py``), each beside what it is compared with in the same run. A benchmark is never a test: it
passes no verdict and nothing waits for it. What must not go in: product code, and a figure that nobody measured.
"""
