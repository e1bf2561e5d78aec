"""Decisions on what peers send."""
