"""Recall in processes of its own, so that recalls neither wait for each other nor for writes."""
