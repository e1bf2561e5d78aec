"""Rules of abmind's memories: attributes, kinds, duplicates. Pure."""
