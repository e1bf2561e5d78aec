"""Routes about episodes, deltas, rules, summaries and memories."""
