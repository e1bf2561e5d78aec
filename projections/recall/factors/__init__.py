"""Factors: pure functions from features of a fact to a number."""
