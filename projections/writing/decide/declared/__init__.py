"""Decisions on what operators and agents declare."""
