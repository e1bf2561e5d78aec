"""A log as import lines: facts, retractions, settlements, declarations and memories, in order.

``import --clock-from-file`` into an empty directory gives an equal state at the same times. Ids and
signatures belong to the new log. Each kind of event has a ``line`` if it travels.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice, tee, zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.values import wire_v
from engramlog.api.transfer.export_declared import Stones, declared_lines
from engramlog.api.transfer.export_memory import FollowedEvent, episode_line, run_line
from engramlog.api.transfer.export_names import Names, Sieve
from engramlog.api.transfer.lines.facts import (
    AssertLine,
    AttributesLine,
    DenyLine,
    LineValue,
    RetractLine,
)
from engramlog.api.transfer.lines.line_kinds import AnyLine, ResolveLine, encode_line
from engramlog.api.transfer.lines.payload_lines import instant_text, names_kind
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import (
    KINDS,
    ConflictResolved,
    ConsolidationRan,
    DeltaApplied,
    EpisodeRecorded,
    FactAsserted,
    FactAttributesSet,
    FactDenied,
    FactRetracted,
    SummaryRecorded,
)
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.tables.peers.protocol_facts import unwrapped
from engramlog.projections.tables.peers.refused_events import Place, refused_places

RESOLUTION_PREFIX = "stigmem:resolution:"
_ZERO = "zero"
"""The value type of a record with confidence 0: each is its own side."""

COUNTED = {
    "recall_answered": "receipts of recalls",
    "fact_erased": "erasures",
    "erasure_certified": "receipts of erasures",
    "key_issued": "API keys",
    "agent_key_set": "agents' keys",
    "org_manifest_set": "organisations' manifests",
    "capability_issued": "capability tokens",
    "subscription_set": "subscriptions",
    "peer_declared": "peers",
}
"""The names under which other kinds are counted."""

_SPEAKING = frozenset(
    {"fact_asserted", "delta_applied", "legal_hold_set"}
    | {kind for kind, shape in KINDS.items() if names_kind(shape, "fact")}
)
"""Kinds that may name facts of a batch that arrived apart."""


def export_lines(
    log: ReadableLog,
    until: int | None = None,
    left_out: Counter[str] | None = None,
    sieve: Sieve | None = None,
) -> Iterator[tuple[int, bytes]]:
    """(position, line) of every event that import can repeat, up to ``until``. ``left_out``:
    receives the counts of all other events (``COUNTED``). ``sieve``: the caller's rights to read;
    None for everything."""
    exporter = _Exporter(sieve or Sieve())
    position = 0
    events, ahead = tee(log.iterate(0, until))
    for event, third in zip_longest(events, islice(ahead, 2, None)):
        position = event.position
        exporter.settles = _settling(event, third)
        if left_out is not None and event.kind in COUNTED:
            left_out[COUNTED[event.kind]] += 1
        for line in exporter.lines_of(event):
            yield position, encode_line(line) + b"\n"
    for line in exporter.rest():
        yield position, encode_line(line) + b"\n"


class _Exporter:
    """Turns events into lines, one after another."""

    def __init__(self, sieve: Sieve) -> None:
        self._names = Names(sieve)
        self._stones: Stones = {}
        self._groups: dict[tuple[str, str], FollowedEvent] = {}
        self._settling_facts: dict[str, AssertLine] = {}
        self._waiting: dict[str, list[AnyLine]] = {}
        """Denials of facts that have not gone out, by fact."""
        self._deniers: set[str] = set()
        self._refused: set[Place] = set()
        self.settles: ConflictResolved | None = None

    def lines_of(self, event: Recorded) -> list[AnyLine]:
        """The lines that an event completes."""
        self._refused.update(refused_places(event))
        if (event.header.stream, event.header.stream_seq) in self._refused:
            return []
        event, at = unwrapped(event), instant_text(event.received_at)
        lane = _lane(event)
        group = self._groups.get(lane)
        if group is not None and event.header.causation_id == group.event.event_id:
            if isinstance(event.payload, FactAsserted | FactRetracted):
                group.absorb(self._of(event, at))
                return []
        elif group is not None:
            del self._groups[lane]
        done = [] if group is None else group.lines()
        if event.kind in _SPEAKING:
            done += [line for other in self._groups.values() for line in other.lines()]
        return [*done, *self._of(event, at)]

    def rest(self) -> list[AnyLine]:
        """The remaining lines when the log ends."""
        return [line for group in self._groups.values() for line in group.lines()]

    def _of(self, event: Recorded, at: str) -> list[AnyLine]:
        """The lines of one event, recorded then; lines that waited for it keep their time."""
        return [
            line if line.recorded_at else replace(line, recorded_at=at)
            for line in self._untimed(event, at)
        ]

    def _untimed(self, event: Recorded, at: str) -> list[AnyLine]:
        names = self._names
        match event.payload:
            case FactAsserted() as fact:
                return self._asserted(event, fact)
            case FactRetracted() as retraction:
                names.note_ended(retraction.fact_ids)
                return self._retracted(event, retraction)
            case FactDenied() as denial:
                return self._denied(denial, at)
            case FactAttributesSet() as change if names.counts(event, change.fact_id):
                attributes = msgspec.to_builtins(change.attributes)
                return [AttributesLine(target=change.fact_id, attributes=attributes)]
            case ConflictResolved() as resolution:
                return self._resolved(event, resolution)
            case EpisodeRecorded() as episode:
                return episode_line(event, episode, names)
            case DeltaApplied() as deltas:
                self._groups[_lane(event)] = FollowedEvent(event, deltas, names, at)
                return []
            case SummaryRecorded() as summary if event.peer is None:
                self._groups[_lane(event)] = FollowedEvent(event, summary, names, at)
                return []
            case ConsolidationRan() as run if names.sieve.declarations:
                return run_line(run, names)
            case _:
                return declared_lines(event, names, self._stones)

    def _asserted(self, event: Recorded, fact: FactAsserted) -> list[AnyLine]:
        names = self._names
        if fact.entity.startswith(RESOLUTION_PREFIX):
            return []  # the resolve line creates it again
        key = fact.id or id_text(event.event_id)
        if names.origin(key) is not None and fact.foreign is not None:
            return []  # another node included it too
        if not names.sieve.fact(key):
            return []
        parents = tuple(parent.hash for parent in fact.derived_from)
        content = (fact.cid, fact.garden_id, fact.valid_from, fact.valid_until,
                   fact.value.interpret_as, parents)  # fmt: skip
        again = names.was_live(key, content) and fact.confidence > 0.0
        value_key = (fact.value.type, fact.value.v) if fact.confidence else (_ZERO, key)
        names.add_fact(key, value_key, event.header.origin)
        line = shaped(
            fact,
            AssertLine,
            key=key,
            value=LineValue(
                fact.value.type, wire_v(fact.value.type, fact.value.v), fact.value.interpret_as
            ),
            derived_from=[names.parent(parent) for parent in fact.derived_from],
            garden_id=names.garden(fact.garden_id),
            attributes=msgspec.to_builtins(fact.attributes),
            again=again,
            alone=fact.confidence == 0.0,
        )
        if self.settles is not None and len(self._losers(event, self.settles)) == 2:
            self._settling_facts[key] = line  # the resolve line states it
            return []
        return [line, *self._waiting.pop(key, [])]

    def _retracted(self, event: Recorded, retraction: FactRetracted) -> list[AnyLine]:
        names, marker = self._names, retraction.marker_id
        return [
            RetractLine(
                target=fact,
                reason=retraction.reason,
                marker=marker if marker in names.values else None,
            )
            for fact in names.ended(event, retraction.fact_ids)
            if names.values[fact][0] != _ZERO or fact in self._deniers
        ]

    def _denied(self, denial: FactDenied, at: str) -> list[AnyLine]:
        """A line for each denied fact, once that fact went out."""
        lines: list[AnyLine] = []
        if denial.marker_id not in self._names.values:
            return lines
        self._deniers.add(denial.marker_id)
        for fact in denial.fact_ids:
            line = DenyLine(target=fact, marker=denial.marker_id, recorded_at=at)
            waits = fact not in self._names.values
            (self._waiting.setdefault(fact, []) if waits else lines).append(line)
        return lines

    def _losers(self, event: Recorded, resolution: ConflictResolved) -> list[str]:
        """One fact of each losing value: the writer sets aside all facts of a value."""
        names = self._names
        losers: dict[Any, str] = {}
        for fact in names.ended(event, resolution.loser_ids):
            losers.setdefault(names.values[fact], fact)
        return list(losers.values())

    def _resolved(self, event: Recorded, resolution: ConflictResolved) -> list[AnyLine]:
        """One line for each losing value; or one line if neither side was right."""
        losers = self._losers(event, resolution)
        if not self._names.ended(event, [resolution.winner_id]):
            return []
        replacement = self._settling_facts.pop(resolution.winner_id, None)
        if replacement is not None:
            return [
                ResolveLine(
                    winner=losers[0], loser=losers[1], note=resolution.note, states=replacement
                )
            ]
        return [
            ResolveLine(
                winner=resolution.winner_id,
                loser=loser,
                note=resolution.note,
                source=event.header.actor,
            )
            for loser in losers
        ]


def _settling(event: Recorded, third: Recorded | None) -> ConflictResolved | None:
    """The resolution that a fact belongs to: a note and the resolution (``third``) follow it."""
    resolution = None if third is None else third.payload
    if not isinstance(event.payload, FactAsserted) or not isinstance(resolution, ConflictResolved):
        return None
    return resolution if resolution.winner_id == id_text(event.event_id) else None


def _lane(event: Recorded) -> tuple[str, str]:
    """The sequence of a batch's events: this node's own, or a peer's stream."""
    return ("", "") if event.peer is None else (event.header.origin, event.header.stream)
