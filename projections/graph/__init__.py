"""Questions about the graph: neighbours, paths, provenance, lint, synthesis."""
