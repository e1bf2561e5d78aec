"""The parts of the memory image: growing columns, slot lists and indexes of texts."""
