"""Recall in its own processes, so that recalls neither wait for each other nor for writes."""
