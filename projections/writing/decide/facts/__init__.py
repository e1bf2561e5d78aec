"""Decisions on facts: asserting, ending, resolving, judging, erasing."""
