"""The base of the requests' models."""

from pydantic import BaseModel


class Model(BaseModel, defer_build=True):
    """A part of a request. Its validator is built on first use: building all of them at start takes
    longer than opening an empty node, and most are never used."""
