"""Audit: what was known when, what changed, and who recalled it; over the image and the archive."""
