"""abmind's settings, from an environment as abmind reads them: an unusable number causes a warning,
and the default stays."""

import copy
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from engramlog.projections.recall.profile import ProfileError, parse_profile


class ProfilePlace(Struct, frozen=True):
    """The place of a setting in a profile's document: ``path`` within one of its ``part``
    (``stages`` or ``factors``), by name."""

    part: str
    name: str
    path: tuple[str, ...]


_PRODUCT = ("parameters", "product")
VARIABLES: dict[str, ProfilePlace] = {
    "EMBEDDING_SIMILARITY_THRESHOLD": ProfilePlace(
        "stages", "semantic", ("parameters", "threshold")
    ),
    "RECALL_DECAY_DAYS": ProfilePlace("stages", "fuzzy", (*_PRODUCT, "decay_days")),
    "RECALL_DECAY_FLOOR": ProfilePlace("stages", "fuzzy", (*_PRODUCT, "decay_floor")),
    "RECALL_EMOTION_BOOST": ProfilePlace("stages", "fuzzy", (*_PRODUCT, "emotion_recency")),
    "RECALL_CONTEXT_HOUR_BOOST": ProfilePlace("factors", "context", ("parameters", "hour")),
    "RECALL_CONTEXT_DOW_BOOST": ProfilePlace("factors", "context", ("parameters", "day")),
    "RECALL_CONTEXT_TOPIC_BOOST": ProfilePlace("factors", "context", ("parameters", "topic")),
    "RECALL_SE_WAIT_MS": ProfilePlace("stages", "semantic", ("deadline_ms",)),
    "RECALL_SS_SCAN_ROWS": ProfilePlace("stages", "simhash", ("parameters", "rows")),
}
"""abmind's variables of recall that are numbers."""
_MODE, _BITS = "MEMORY_SEARCH_MODE", "SIGNATURE_BITS"
_TURNED_OFF: dict[str, tuple[str, ...]] = {
    "hybrid": (),
    "fts": ("semantic", "simhash"),
    "signature": ("fuzzy", "semantic"),
}
"""The stages that a search mode turns off. The other two always run."""
_SIGNATURE_BITS = "256"


def number_of(text: str) -> float | int | None:
    """A variable's number; None if it is not one."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def whole_number(
    environ: Mapping[str, str], name: str, default: int, most: int
) -> tuple[int, str | None]:
    """A variable's number from 1 to ``most``; otherwise the default, with a warning."""
    given = environ.get(name)
    if given is None or not given.strip():
        return default, None
    number = number_of(given)
    if isinstance(number, int) and 1 <= number <= most:
        return number, None
    return default, f"{name} is {given!r}, not a number from 1 to {most}: using {default}"


def tuned(
    document: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """The document with the values of abmind's variables. Warns of each that is not a number, out
    of range, or for a part that this profile lacks."""
    changed = copy.deepcopy(dict(document))
    warnings = _set_mode(changed, environ)
    for name, place in VARIABLES.items():
        given = environ.get(name, "").strip()
        if not given:
            continue
        number = number_of(given)
        if number is None:
            warnings.append(f"{name} is {given!r}, not a number: the profile's value stays")
            continue
        tried = copy.deepcopy(changed)
        part = next((each for each in tried[place.part] if each["name"] == place.name), None)
        if part is None:
            warnings.append(f"{name} has no effect: the profile has no {place.name}")
            continue
        _put(part, place.path, number)
        try:
            parse_profile(tried)
        except ProfileError as fault:
            warnings.append(f"{name} is {given}: {fault.reason}; the profile's value stays")
        else:
            changed = tried
    return changed, warnings


def _set_mode(document: dict[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Turn off the stages that the search mode omits. Returns warnings."""
    warnings: list[str] = []
    mode = environ.get(_MODE, "").strip() or "hybrid"
    stages = {stage["name"]: stage for stage in document["stages"]}
    omitted = _TURNED_OFF.get(mode)
    if omitted is None:
        modes = ", ".join(_TURNED_OFF)
        warnings.append(f"{_MODE} is {mode!r}, not one of {modes}: the profile's stages stay")
    elif missing := [name for name in omitted if name not in stages]:
        warnings.append(f"{_MODE} has no effect: the profile has no {missing[0]}")
    else:
        for name in omitted:
            stages[name]["weight"] = 0
    bits = environ.get(_BITS, "").strip() or _SIGNATURE_BITS
    if bits != _SIGNATURE_BITS:
        warnings.append(f"{_BITS} is {bits!r}: signatures have {_SIGNATURE_BITS} bits")
    return warnings


def _put(part: dict[str, Any], path: tuple[str, ...], number: float) -> None:
    for step in path[:-1]:
        part = part.setdefault(step, {})
    part[path[-1]] = number
