"""Projections of episodes, deltas, rules and summaries, one file per table."""
