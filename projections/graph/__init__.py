"""Questions about the graph: neighbors, paths, provenance, lint, synthesis."""
