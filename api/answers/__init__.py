"""The wire form of answers that several routes share."""
