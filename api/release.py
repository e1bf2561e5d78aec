"""The release of this program."""

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """The installed release; "0" if the program runs from a source tree."""
    try:
        return version("engramlog")
    except PackageNotFoundError:
        return "0"
