"""What a conversation gives recall: the neighbours of a fact, its speakers, and their names."""
