"""Projections of facts and of everything said about them, one file per table."""
