"""Tables: the contract of a projector, the registry of all, and their file."""
