"""Which matcher of a rule an episode satisfies, and the texts from its match."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.pattern_search import Search, found_groups
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
    matchers: Sequence[Matcher],
    episode: Episode,
    salience: float | None = None,
    search: Search = found_groups,
) -> Match | None:
    """The first of ``matchers`` (``in_order``) that an episode satisfies. Raises Unsearchable."""
    for matcher in matchers:
        groups = _groups(matcher, episode, salience, search)
        if groups is not None:
            return Match(matcher, groups)
    return None


def match_count(
    matchers: Sequence[Matcher], episode: Episode, search: Search = found_groups
) -> int:
    """How many matchers an episode satisfies, regardless of its salience. Raises Unsearchable."""
    return sum(_groups(matcher, episode, None, search) is not None for matcher in matchers)


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


def _groups(
    matcher: Matcher, episode: Episode, salience: float | None, search: Search
) -> dict[str, str] | None:
    groups: dict[str, str] = {}
    for condition in matcher.when:
        found = _match_condition(condition, field_of(episode, condition.field, salience), search)
        if found is None:
            return None
        groups.update(found)
    return groups


_YES: dict[str, str] = {}


def _match_condition(condition: Condition, value: Any, search: Search) -> dict[str, str] | None:
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
            return search(wanted, value[:REGEX_TEXT_MAX]) if isinstance(value, str) else None
    return _YES if holds else None
