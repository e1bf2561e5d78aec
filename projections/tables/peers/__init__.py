"""Projections of peers and of what they sent, one file per table."""
