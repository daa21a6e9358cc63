"""Benches: `make bench` measures figures against their bars. Not collected by pytest; `docs/bench.md` explains them."""
