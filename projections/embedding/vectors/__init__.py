"""Vectors: the table, in memory, in files, and in a file beyond the memory budget."""
