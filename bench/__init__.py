"""Benchmarks, judged by ratios: `python -m bench NAME` runs `bench/bench_NAME.py`."""
