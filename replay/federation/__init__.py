"""Peers replay each other's streams: declared, approved, verified, held when wrong."""
