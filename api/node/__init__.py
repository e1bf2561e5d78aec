"""The running node: opens and closes a data directory, and owns the tasks beside requests."""
