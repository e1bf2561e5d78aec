"""The write side: commands, the decisions on them, and the writer that appends and applies."""
