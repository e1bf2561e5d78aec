"""Projections of peers and of their events, one file per table."""
