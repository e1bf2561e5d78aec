"""Routes between nodes."""
