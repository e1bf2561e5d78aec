"""Routes about recall."""
