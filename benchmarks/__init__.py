"""Benchmarks: one module per claim, each printing ratios to a baseline of the same run."""
