"""Vectors in files beside their table, and how they come into memory at a start."""
