"""From episodes to deltas: the seed's classifier, or the matchers of a rule.

A pure function of the episodes, in order, and of the facts before them. One pass or many make no
difference: a pass carries the state that the tables would have if each episode had its own pass.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_args

from msgspec import Struct, field

from engramlog.eventlog.kinds import DeltaKind
from engramlog.projections.episodes.delta import (
    AddDelta,
    ConsolidationRuleError,
    DeleteDelta,
    MemoryDelta,
    NoopDelta,
    Proposal,
    UpdateDelta,
    check_delta,
    payload_of,
    promoted_id,
    replaced_by,
)
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.matching import filled, first_match, in_order
from engramlog.projections.episodes.pattern_search import Search, Unsearchable, found_groups
from engramlog.projections.episodes.provenance_bundle import ProvenanceError, check_slots
from engramlog.projections.episodes.rule import Matcher, Rule
from engramlog.projections.episodes.stating import entity_of
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.normalization import normalize_uri

SUBJECT_BYTES_MAX = 512
PREDICATE_BYTES_MAX = 256

KeyOfFact = tuple[MemoryPlace, str, str, str]
"""(place, source, subject, predicate)."""


class UnusableEpisode(ValueError):
    """A rule cannot use an episode; the message says why."""


class CurrentFacts:
    """The current facts of a (place, source, subject, predicate), newest last, by their names in
    deltas. ``look_up`` returns the facts before this pass, as (name, fact id); this object adds the
    pass's own."""

    def __init__(self, look_up: Mapping[KeyOfFact, Sequence[tuple[str, str]]]) -> None:
        self._names: dict[KeyOfFact, list[str]] = {}
        self._keys: dict[tuple[MemoryPlace, str, str], KeyOfFact] = {}
        self._aliases: dict[str, str] = {}
        for key, facts in look_up.items():
            for name, fact_id in facts:
                self._aliases[fact_id] = name
                self.state(key, name)

    def name_of(self, key: KeyOfFact) -> str | None:
        """The newest fact of a key."""
        names = self._names.get(key)
        return names[-1] if names else None

    def state(self, key: KeyOfFact, name: str) -> None:
        """Add a fact for the key; it replaces one with the same name."""
        place, source, *_ = key
        self.end(place, source, [name])
        self._names.setdefault(key, []).append(name)
        self._keys[place, source, name] = key

    def end(self, place: MemoryPlace, source: str, names: Sequence[str]) -> None:
        for given in names:
            name = self._aliases.get(given, given)
            key = self._keys.pop((place, source, name), None)
            if key is not None:
                self._names[key].remove(name)


class Emitted(Struct, frozen=True):
    """The result of a pass: deltas in order, and unusable episodes."""

    proposals: list[Proposal] = field(default_factory=list)
    set_aside: list[tuple[Episode, str]] = field(default_factory=list)


def emit(
    rule: Rule,
    episodes: Sequence[Episode],
    standing: CurrentFacts,
    salience: Mapping[str, float] | None = None,
    search: Search = found_groups,
) -> Emitted:
    """The deltas of ``rule`` for ``episodes``, oldest first. An unusable episode goes to quarantine
    with the reason; the others continue. ``search``: for the regular expressions of matchers."""
    version = rule.version
    matchers = in_order(rule.matchers)
    classify: Callable[[Episode], MemoryDelta] = (
        (
            lambda episode: _match_delta(
                rule, matchers, episode, (salience or {}).get(episode.key), search
            )
        )
        if matchers
        else (lambda episode: _classify(rule, episode, standing))
    )
    made = Emitted()
    for episode in episodes:
        try:
            delta = classify(episode)
            check_delta(delta)
            _check_applicable(delta, episode.place)
        except (UnusableEpisode, Unsearchable, ConsolidationRuleError, ProvenanceError) as fault:
            made.set_aside.append((episode, str(fault)))
            continue
        source = source_of(rule, episode)
        _note(standing, episode.place, source, delta)
        made.proposals.append(
            Proposal(
                delta,
                episode.place,
                promoted_id(rule.id, version, episode.place, [episode.name]),
                source,
                inherited=not matchers,
                episodes=[episode.hash],
            )
        )
    return made


def source_of(rule: Rule, episode: Episode) -> str:
    """Who states what a rule makes of an episode, in stored form: the rule's source, the recorder,
    or the peer that the episode came through, which may name any recorder."""
    return normalize_uri(rule.source or episode.peer or episode.actor)


def _check_applicable(delta: MemoryDelta, place: MemoryPlace) -> None:
    """Raises UnusableEpisode for a delta that could never be applied, so that ``CurrentFacts``
    equals the tables."""
    replaces = replaced_by(delta)
    if len(set(replaces)) != len(replaces):
        raise UnusableEpisode("replaces names a fact twice")
    payload = payload_of(delta)
    if payload is None:
        return
    if payload["id"] in replaces:
        raise UnusableEpisode("the new fact is among those it replaces")
    try:
        entity_of(payload.get("subject"), place)
    except ValueError as fault:
        raise UnusableEpisode(f"subject makes no entity: {fault}") from fault


def _note(standing: CurrentFacts, place: MemoryPlace, source: str, delta: MemoryDelta) -> None:
    if isinstance(delta, UpdateDelta | DeleteDelta):
        standing.end(place, source, delta.replaces)
    if isinstance(delta, AddDelta | UpdateDelta):
        payload = delta.fact_payload
        standing.end(place, source, [payload["id"]])
        subject, predicate = payload.get("subject"), payload.get("predicate")
        if subject and predicate:
            standing.state((place, source, subject, predicate), payload["id"])


def key_of(rule: Rule, episode: Episode) -> KeyOfFact | None:
    """The key of the fact that an episode would give; None without subject and predicate."""
    subject, predicate = episode.text("subject"), episode.text("predicate")
    if subject is None or predicate is None:
        return None
    return episode.place, source_of(rule, episode), subject, predicate


def _classify(rule: Rule, episode: Episode, standing: CurrentFacts) -> MemoryDelta:
    """The delta of an episode by its ``intent``; without one an update if its key has a current
    fact, else an add. Raises UnusableEpisode."""
    intent = episode.metadata.get("intent")
    if intent is not None and intent not in get_args(DeltaKind):
        raise UnusableEpisode("metadata.intent must be add, update, delete or noop")
    if intent == "noop":
        return NoopDelta(**_origin(rule, episode))
    if intent == "delete":
        return DeleteDelta(replaces=_replaces(episode), **_origin(rule, episode))
    payload = _payload(episode)
    if intent == "update":
        return UpdateDelta(
            replaces=_replaces(episode), fact_payload=payload, **_origin(rule, episode)
        )
    key = key_of(rule, episode)
    older = None if key is None else standing.name_of(key)
    if older is None or older == episode.id:
        return AddDelta(fact_payload=payload, **_origin(rule, episode))
    return UpdateDelta(replaces=[older], fact_payload=payload, **_origin(rule, episode))


def _origin(rule: Rule, episode: Episode, confidence: float = 1.0) -> dict[str, Any]:
    return {
        "source_episode_ids": [episode.id],
        "promotion_us": episode.at_us,
        "rule_id": rule.id,
        "confidence": confidence,
    }


def _replaces(episode: Episode) -> list[str]:
    given = episode.metadata.get("replaces")
    if not isinstance(given, list):
        raise UnusableEpisode("metadata.replaces must be a list of fact ids")
    names = cast("list[Any]", given)
    if not all(isinstance(name, str) and name for name in names):
        raise UnusableEpisode("metadata.replaces must hold fact ids")
    return list(names)


def _payload(episode: Episode) -> dict[str, Any]:
    payload: dict[str, Any] = {"id": episode.id, "content": episode.content}
    if episode.source_node:
        payload["source_node"] = episode.source_node
    for name in ("subject", "predicate", "object"):
        value = episode.metadata.get(name)
        if value is not None:
            payload[name] = value
    check_payload(payload)
    return payload


def check_payload(payload: Mapping[str, Any]) -> None:
    """Raises UnusableEpisode or ProvenanceError if a payload cannot become a fact."""
    check_slots(payload)
    for name, most in (("subject", SUBJECT_BYTES_MAX), ("predicate", PREDICATE_BYTES_MAX)):
        value = payload.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise UnusableEpisode(f"{name} must be a text that is not empty")
        if len(value.encode()) > most or not value.isprintable():
            raise UnusableEpisode(f"{name} must be printable and have at most {most} bytes")
    stated = payload.get("object")
    if stated is not None and not isinstance(stated, str | int | float | bool):
        raise UnusableEpisode("object must be a text, a number or a boolean")
    content = payload.get("content")
    if stated is None and (not isinstance(content, str) or not content):
        raise UnusableEpisode("a fact needs an object or a content")


def _match_delta(
    rule: Rule,
    matchers: Sequence[Matcher],
    episode: Episode,
    salience: float | None,
    search: Search,
) -> MemoryDelta:
    """The delta of the first matcher that an episode satisfies; a noop without one. Raises
    Unsearchable, ProvenanceError."""
    found = first_match(matchers, episode, salience, search)
    if found is None:
        return NoopDelta(**_origin(rule, episode))
    then = found.matcher.then
    origin = _origin(rule, episode, then.confidence)
    if then.emit == "noop":
        return NoopDelta(**origin)
    replaces: list[str] = []
    if then.replaces is not None:
        replaces = [name for name in [filled(then.replaces, episode, found.groups)] if name]
    if then.emit == "delete":
        return DeleteDelta(replaces=replaces, **origin)
    payload: dict[str, Any] = {
        slot: filled(template, episode, found.groups) for slot, template in then.fact.items()
    }
    payload.setdefault("id", episode.id)
    check_payload(payload)
    if then.emit == "add":
        return AddDelta(fact_payload=payload, **origin)
    return UpdateDelta(replaces=replaces, fact_payload=payload, **origin)
