"""Markdown summaries of days, weeks and quarters: each paragraph is a fact (abmind's S6)."""
