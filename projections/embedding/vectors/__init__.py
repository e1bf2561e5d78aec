"""Vectors: the table, in memory, and in files that are mapped into memory."""
