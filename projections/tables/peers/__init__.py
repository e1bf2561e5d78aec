"""Projections of peers and of what they sent, one file a table."""
