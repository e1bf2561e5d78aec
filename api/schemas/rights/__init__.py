"""Requests about gardens, keys, capabilities and trust, and some of their answers."""
