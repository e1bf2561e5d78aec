"""Tasks: what runs beside requests, each with a name, a start, a stop and a status."""
