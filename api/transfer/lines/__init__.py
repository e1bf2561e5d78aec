"""The lines of an import file, by subject."""
