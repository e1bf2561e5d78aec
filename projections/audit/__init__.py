"""Audit: what was known when, what changed, and who was told; over the image and the archive."""
