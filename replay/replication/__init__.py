"""Replicas: a node that copies another, event by event, until it is promoted."""
