"""The memory image: the columns that every query filters by, in memory and append-only."""
