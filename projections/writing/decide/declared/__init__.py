"""Decisions on declarations by operators and agents."""
