"""Commands that run and look after a node."""
