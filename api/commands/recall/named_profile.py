"""The profile that a recall names."""

from engramlog.api.http.errors import coded
from engramlog.projections.image.reader import Reader
from engramlog.projections.recall.profile import (
    Profile,
    UnknownProfile,
    load_profile,
    read_profile,
)


def profile_named(reader: Reader, name: str, position: int) -> Profile:
    """An installed or built-in profile. Raises ApiError 400 ``unknown_profile``."""
    installed = reader.profiles(position)
    if name in installed:
        return read_profile(installed[name])
    try:
        return load_profile(name)
    except UnknownProfile as fault:
        raise coded("unknown_profile", str(fault)) from fault
