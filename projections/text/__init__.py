"""Text: patterns, folding, similarity. Pure functions of strings."""
