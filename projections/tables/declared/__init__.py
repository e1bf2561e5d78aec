"""Projections of declarations by operators and agents, one file per table."""
