"""Conversations in recall: the neighbours of a fact, its speakers, and their names."""
