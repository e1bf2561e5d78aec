"""Commands that query."""
