"""A memory in the interfaces of agent frameworks. Each needs its framework installed."""
