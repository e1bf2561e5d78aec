"""Routes about the node itself."""
