"""The names of entities: their words, and which of them are alike."""
