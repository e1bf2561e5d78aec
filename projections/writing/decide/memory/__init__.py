"""Decisions on episodes, deltas, memories and summaries."""
