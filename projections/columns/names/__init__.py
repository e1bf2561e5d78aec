"""The names of entities: what they say, and how alike they are."""
