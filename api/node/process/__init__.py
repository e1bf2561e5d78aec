"""The process that serves a node."""
