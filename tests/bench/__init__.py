"""Benchmarks: `make bench`. Ratios against a named baseline of the same run, never asserted."""
