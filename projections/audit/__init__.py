"""Audit: what the node knew when, what changed, and who recalled it; over the image and the
archive."""
