"""Asking other nodes over HTTP."""
