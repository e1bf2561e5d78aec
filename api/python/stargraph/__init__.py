"""Stargraph's two memories over a node, with its protocols' names and signatures."""
