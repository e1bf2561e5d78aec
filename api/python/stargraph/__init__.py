"""Stargraph's two memories over a node, by the names and signatures of its protocols."""
