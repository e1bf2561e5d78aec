"""Capability tokens: rights that travel with whoever holds them, and prove themselves."""
