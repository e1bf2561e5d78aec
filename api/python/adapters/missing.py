"""What to install for an adapter."""

from __future__ import annotations


def needs(library: str, extra: str) -> ImportError:
    """The error of an adapter whose framework is not installed."""
    return ImportError(f"{library} is not installed: pip install engramlog[{extra}]")
