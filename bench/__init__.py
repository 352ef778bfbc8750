"""Side-by-side benchmarks; every figure in the docs is printed by ``python -m bench``."""
