"""Routes about facts."""
