"""Projections of facts and of all that concerns them, one file per table."""
