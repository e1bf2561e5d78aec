"""HTTP clients for other nodes."""
