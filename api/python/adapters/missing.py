"""The error for a missing framework."""


def needs(library: str, extra: str) -> ImportError:
    """The error of an adapter without its framework."""
    return ImportError(f"{library} is not installed: pip install engramlog[{extra}]")
