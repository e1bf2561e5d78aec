"""Entity and source URIs in their one stored form.

Source: the protocol's normaliser (trim; formal URIs lower-cased part by part; informal names
lower-cased; runs of white space become ``-``).
"""

import re
from functools import lru_cache
from typing import Any

URI_LENGTH_MAX = 2048
SCOPES = ("local", "team", "company", "public")
"""Scope number = index."""
EVERY_SCOPE = frozenset({"*", "global"})
"""Callers write either for all scopes that they may read."""

_SCHEME_PREFIX = "stigmem://"
_SPACES = re.compile(r"\s+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:[^\s]")


@lru_cache(maxsize=65_536)
def normalize_uri(text: str) -> str:
    """The stored form of an entity or source. Raises ValueError: empty, over 2048 characters, or
    holding control characters."""
    trimmed = text.strip()
    if not trimmed:
        raise ValueError("entity URI must not be empty")
    if len(trimmed) > URI_LENGTH_MAX:
        raise ValueError(f"entity URI has {len(trimmed)} characters, over {URI_LENGTH_MAX}")
    normal = trimmed.lower()
    if not normal.isprintable() or " " in normal:
        normal = _SPACES.sub("-", normal)
    if has_control_character(normal):
        raise ValueError("entity URI must not hold control characters")
    if normal.startswith(_SCHEME_PREFIX):
        parts = normal[len(_SCHEME_PREFIX) :].split("/", 2)
        if len(parts) < 2 or not all(parts):
            raise ValueError("a stigmem:// URI must not have an empty authority, type or id")
    return normal


def has_control_character(text: str) -> bool:
    """Whether a text holds a control character of ASCII."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def holds_nul(value: Any) -> bool:
    """Whether a text of a JSON value, or a name in it, holds the NUL character."""
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(holds_nul(each) for pair in value.items() for each in pair)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, list) and any(holds_nul(each) for each in value)  # pyright: ignore[reportUnknownVariableType]


def number_text(number: float) -> str:
    """A finite number as facts store it: equal numbers, 0.0 and -0.0 too, have one text."""
    return repr(float(number) + 0.0)


def normalize_ref(text: str) -> str:
    """The entity of a ``ref`` value, in stored form. A ref must be a URI (``scheme:…``): there are
    no refs without an edge. Raises ValueError: empty or not a URI."""
    normal = normalize_uri(text)
    if _SCHEME.match(normal) is None:
        raise ValueError("a ref must be an entity URI, such as company:acme")
    return normal


def entity_display(entity: str) -> str:
    """The last path segment of an entity URI (seed §20.2.2)."""
    return entity.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]


def is_reserved(entity: str) -> bool:
    """Whether an entity is the protocol's own record, such as ``stigmem:resolution:…``."""
    return entity.startswith("stigmem:") and not entity.startswith(_SCHEME_PREFIX)


def matches_label(pattern: str, relation: str) -> bool:
    """Whether a relation label, or suffix-``*`` glob, covers ``relation``."""
    if pattern.endswith("*"):
        return relation.startswith(pattern[:-1])
    return relation == pattern


def lies_under(entity: str, prefix: str) -> bool:
    """Whether ``entity`` equals ``prefix`` or lies below it. Prefixes end at the end of a name:
    ``…/user/al`` does not cover ``…/user/alice``. A prefix that ends in ``/`` or ``:`` covers
    everything after it."""
    if prefix.endswith(("/", ":")):
        return entity.startswith(prefix)
    return entity == prefix or entity.startswith(prefix + "/")
