"""The running node: opening and closing a data directory, and what runs beside requests."""
