"""Requests about episodes, deltas, consolidation and memories."""
