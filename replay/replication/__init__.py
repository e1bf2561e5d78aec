"""Replicas: a node that is a copy of another, event by event, until it is promoted."""
