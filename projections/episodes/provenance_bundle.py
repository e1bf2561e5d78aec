"""The provenance bundle of a delta's fact: who, from which episodes, in which run.

Fixed rules turn values into text; a value without a rule is refused. A payload cannot use the
bundle's names, which would forge provenance. Source: the Stargraph seed's
``assert_with_provenance``.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

BUNDLE_KEYS = ("origin", "source", "run_id", "step", "confidence", "timestamp")
RESERVED_SLOTS = frozenset(f"_{key}" for key in BUNDLE_KEYS)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")


class ProvenanceError(ValueError):
    """A bundle or payload breaks the rules. ``field`` is the key at fault."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def coerce(value: object) -> str | int:
    """A value as stored in provenance. Raises ValueError for a value without a rule."""
    if isinstance(value, bool):  # before int: every bool is an int
        return "TRUE" if value else "FALSE"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, int | str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("an instant must carry an offset")
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, PurePath):
        if not value.is_absolute():
            raise ValueError("a path must be absolute")
        return value.as_posix()
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    raise ValueError(f"a {type(value).__name__} has no provenance form")


def bundle_of(values: Mapping[str, object]) -> dict[str, str]:
    """A checked bundle. Raises ProvenanceError."""
    return {
        key: _text_of(key, value) if type(value) in _PLAIN else _checked_text(key, value)
        for key, value in values.items()
    }


def _checked_text(key: str, value: object) -> str:
    if key not in BUNDLE_KEYS:
        raise ProvenanceError(key, f"must be one of {', '.join(BUNDLE_KEYS)}")
    try:
        text = str(coerce(value))
    except ValueError as fault:
        raise ProvenanceError(key, str(fault)) from fault
    if "\x00" in text:
        raise ProvenanceError(key, "must not hold the NUL character")
    if text.count("(") != text.count(")"):
        raise ProvenanceError(key, "must close every parenthesis it opens")
    if key in ("origin", "source") and _LABEL.fullmatch(text) is None:
        raise ProvenanceError(key, "must be letters, digits, '_' and '-', not a digit first")
    return text


_PLAIN = frozenset({str, int, bool, Decimal})
_text_of = lru_cache(maxsize=4_096, typed=True)(_checked_text)
"""The facts of a batch share most of their provenance."""


def check_slots(payload: Mapping[str, Any]) -> None:
    """Raises ProvenanceError if a payload uses the bundle's names."""
    taken = sorted(RESERVED_SLOTS & payload.keys())
    if taken:
        raise ProvenanceError(taken[0], "is reserved for provenance")


def as_label(text: str) -> str:
    """``text`` as an ``origin`` or ``source`` label: other characters become ``_``."""
    label = re.sub(r"[^A-Za-z0-9_\-]", "_", text)
    return label if _LABEL.fullmatch(label) else f"_{label}"
