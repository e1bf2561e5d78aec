"""Contradictions between facts, as a caller sees them."""
