"""The event log in one SQLite file."""
