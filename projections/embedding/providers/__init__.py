"""Embedding models: one seam, and the providers behind it."""
