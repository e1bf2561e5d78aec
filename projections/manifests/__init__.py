"""Manifests: what an organisation states about its key and its entities, signed (wire 3.8)."""
