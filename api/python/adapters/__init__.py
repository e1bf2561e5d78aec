"""A memory in the shapes that agent frameworks ask for. Each needs its framework installed."""
