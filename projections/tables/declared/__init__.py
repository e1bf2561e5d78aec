"""Projections of what operators and agents declare, one file per table."""
