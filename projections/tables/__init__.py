"""Tables: what a projector is, which there are, and the file they are kept in."""
