"""Tasks: work beside requests. Each has a name, a start, a stop and a status."""
