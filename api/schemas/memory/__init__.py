"""Requests about episodes, deltas, consolidation and memories, and their answers."""
