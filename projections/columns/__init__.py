"""What the memory image is made of: growing columns, slot lists and indexes of texts."""
