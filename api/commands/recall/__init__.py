"""From a recall's request to its answer."""
