"""Audit: what the node knew when, what changed, who recalled it; over image and archive."""
