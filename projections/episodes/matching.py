"""Which matcher of a rule an episode satisfies, and the texts from its match."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.rule import METADATA, Condition, Matcher

REGEX_TEXT_MAX = 4_096
"""Characters of a field that a regular expression reads."""
_BLANK = re.compile(r"\{([A-Za-z_.][A-Za-z0-9_.\-]*)\}")


class Match(Struct, frozen=True):
    """The deciding matcher, and the named groups of its regular expressions."""

    matcher: Matcher
    groups: dict[str, str]


def in_order(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Matchers in order: highest salience first, then by id."""
    return sorted(matchers, key=lambda matcher: (-matcher.salience, matcher.id))


def first_match(
    matchers: Sequence[Matcher], episode: Episode, salience: float | None = None
) -> Match | None:
    """The first of ``matchers`` (``in_order``) that an episode satisfies."""
    for matcher in matchers:
        groups = _groups(matcher, episode, salience)
        if groups is not None:
            return Match(matcher, groups)
    return None


def match_count(matchers: Sequence[Matcher], episode: Episode) -> int:
    """How many matchers an episode satisfies, regardless of its salience."""
    return sum(_groups(matcher, episode, None) is not None for matcher in matchers)


def field_of(episode: Episode, name: str, salience: float | None = None) -> Any:
    """A field of an episode by its name in conditions and templates; None if absent."""
    if name.startswith(METADATA):
        return episode.metadata.get(name[len(METADATA) :])
    if name in ("subject", "predicate", "object", "intent"):
        return episode.metadata.get(name)
    if name == "salience":
        return salience
    return getattr(episode, name)


def filled(template: str, episode: Episode, groups: Mapping[str, str]) -> str:
    """A template with its blanks filled in; a blank without a value becomes empty."""

    def fill(blank: re.Match[str]) -> str:
        name = blank[1]
        if name.startswith("group."):
            return groups.get(name[len("group.") :], "")
        try:
            value = field_of(episode, name)
        except AttributeError:
            return ""
        return "" if value is None else str(value)

    return _BLANK.sub(fill, template)


def _groups(matcher: Matcher, episode: Episode, salience: float | None) -> dict[str, str] | None:
    groups: dict[str, str] = {}
    for condition in matcher.when:
        found = _match_condition(condition, field_of(episode, condition.field, salience))
        if found is None:
            return None
        groups.update(found)
    return groups


_YES: dict[str, str] = {}


def _match_condition(condition: Condition, value: Any) -> dict[str, str] | None:
    """None if the condition fails; else the named groups it found."""
    wanted = condition.value
    match condition.op:
        case "exists":
            holds = (value is not None) == wanted
        case "eq":
            holds = value == wanted
        case "ne":
            holds = value != wanted
        case "in":
            holds = value in wanted
        case "gte" | "lte":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            holds = value >= wanted if condition.op == "gte" else value <= wanted
        case "regex":
            return _search_groups(wanted, value)
    return _YES if holds else None


def _search_groups(pattern: str, value: Any) -> dict[str, str] | None:
    if not isinstance(value, str):
        return None
    found = _compile_pattern(pattern).search(value[:REGEX_TEXT_MAX])
    if found is None:
        return None
    return {name: text or "" for name, text in found.groupdict().items()}


@lru_cache(maxsize=1_024)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
