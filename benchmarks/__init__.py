"""Benchmarks: a module a claim, each printing ratios to a baseline of the same run."""
