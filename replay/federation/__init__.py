"""Peers replay each other's streams: declaring, approving, verifying, holding faulty ones."""
