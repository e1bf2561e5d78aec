"""Embedding models: one interface, and its providers."""
