"""Benchmarks of nearkin: `python -m benchmarks --help`, explained in docs/speed.md."""
