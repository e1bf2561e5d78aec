"""A log as import lines: what was asserted, retracted, settled and declared, in order.

Read back with ``import --clock-from-file`` into an empty directory, the lines give an equal
state: the same contents, validity, retractions, resolutions, trust and policies, at the
same times. Ids and signatures are the new log's own; API keys, recall counts and the records of
quarantine reviews stay behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from api.client import Client
from api.lines import (
    AnyLine,
    AssertLine,
    AttributesLine,
    GardenLine,
    LineValue,
    MemberLine,
    PolicyLine,
    ResolveLine,
    RetractLine,
    SweepLine,
    TrustLine,
)
from api.schemas.values import wire_v
from api.tombstone_lines import TombstoneLine
from eventlog.event import Recorded
from eventlog.identifiers import id_text
from eventlog.kinds import (
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactAttributesSet,
    FactRetracted,
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    Parent,
    PolicySet,
    SetValuedDeclared,
    SourceTrustSet,
    TombstoneRevoked,
    TombstoneSet,
)
from eventlog.log import EventLog
from projections.attribute_rules import may_set
from projections.foreign import unwrapped
from projections.moment import format_instant
from projections.normalization import SCOPES

RESOLUTION_PREFIX = "stigmem:resolution:"
_encode = msgspec.json.Encoder().encode


LEFT_OUT = {
    "episode_recorded": "episodes",
    "delta_applied": "batches of deltas (their facts are there)",
    "consolidation_rule_set": "consolidation rules",
    "alias_set": "aliases",
    "profile_set": "profiles",
    "trust_policy_set": "trust formulas",
    "content_reviewed": "reviews of content",
    "fact_erased": "erasures",
    "legal_hold_set": "legal holds",
    "subscription_set": "subscriptions",
    "peer_declared": "peers",
    "agent_key_set": "agents' keys",
    "key_issued": "API keys",
    "capability_issued": "capability tokens",
}
"""What somebody put into a log and no line can carry, by kind."""


def export_lines(
    log: EventLog, until: int | None = None, left_out: Counter[str] | None = None
) -> Iterator[tuple[int, bytes]]:
    """(position, line) of every event that import can repeat, up to ``until``; ``left_out``
    is told how many of what there are besides (``LEFT_OUT``)."""
    exporter = _Exporter()
    for event in log.iterate(0, until):
        if left_out is not None and event.kind in LEFT_OUT:
            left_out[LEFT_OUT[event.kind]] += 1
        for line in exporter.lines_of(event):
            yield event.position, _encode(line) + b"\n"


class _Exporter:
    """Keeps which facts went out, so that later lines can name them."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        self._origins: dict[str, str] = {}
        self._slugs: dict[str, str] = {}
        self._stones: dict[str, list[TombstoneLine]] = {}

    def lines_of(self, event: Recorded) -> list[AnyLine]:
        at = format_instant(event.received_at).replace("+00:00", "Z")
        event = unwrapped(event)
        match event.payload:
            case FactAsserted() as fact:
                return self._asserted(event, fact, at)
            case FactRetracted() as retraction if retraction.marker_id is None:
                return [
                    RetractLine(target=fact, reason=retraction.reason, recorded_at=at)
                    for fact in retraction.fact_ids
                    if fact in self._values
                ]
            case FactAttributesSet() as change if self._counts(event, change):
                line = AttributesLine(
                    target=change.fact_id,
                    attributes=msgspec.to_builtins(change.attributes),
                    recorded_at=at,
                )
                return [line]
            case ConflictResolved() as resolution:
                return self._resolved(event, resolution, at)
            case SetValuedDeclared() as declared:
                return [PolicyLine(set_valued=list(declared.relations), recorded_at=at)]
            case PolicySet(policy=None) as removed:
                return [PolicyLine(remove_decay=removed.policy_id, recorded_at=at)]
            case PolicySet() as policy:
                return [PolicyLine(decay=policy.policy, recorded_at=at)]
            case SourceTrustSet() as trust:
                return [
                    TrustLine(
                        source=trust.source,
                        trust=trust.trust,
                        reason=trust.reason,
                        recorded_at=at,
                    )
                ]
            case DecaySwept() as sweep:
                gardens = [self._slugs.get(garden, garden) for garden in sweep.gardens]
                policies = list(sweep.policies)
                return [
                    SweepLine(
                        scopes=[sweep.scope], policies=policies, gardens=gardens, recorded_at=at
                    )
                ]
            case TombstoneSet() | TombstoneRevoked():
                return self._tombstoned(event.payload, at)
            case GardenCreated() | GardenDeleted() | GardenMemberSet() as change:
                return [self._garden(change, at)]
            case _:
                return []

    def _counts(self, event: Recorded, change: FactAttributesSet) -> bool:
        """Whether the fact went out and the event's word on it counts."""
        origin = self._origins.get(change.fact_id)
        return origin is not None and may_set(event, origin)

    def _garden(self, change: GardenCreated | GardenDeleted | GardenMemberSet, at: str) -> AnyLine:
        if isinstance(change, GardenCreated):
            self._slugs[change.garden_id] = change.slug
            return GardenLine(
                slug=change.slug,
                name=change.name,
                scope=change.scope,
                description=change.description,
                quarantine=change.quarantine,
                created_by=change.created_by,
                recorded_at=at,
            )
        slug = self._slugs[change.garden_id]
        if isinstance(change, GardenDeleted):
            return GardenLine(slug=slug, remove=True, recorded_at=at)
        return MemberLine(
            garden=slug,
            entity_uri=change.entity_uri,
            role=change.role,
            added_by=change.added_by,
            recorded_at=at,
        )

    def _tombstoned(self, change: TombstoneSet | TombstoneRevoked, at: str) -> list[AnyLine]:
        """One line a scope, where it hides in several and not in all."""
        if isinstance(change, TombstoneSet):
            every = len(change.scopes) == len(SCOPES)
            lines = [
                TombstoneLine(
                    entity=change.entity,
                    scope=scope,
                    reason=change.reason,
                    legal_hold=change.legal_hold and change.node_id is None,
                    signed_by=change.signed_by,
                    recorded_at=at,
                )
                for scope in (["all"] if every else change.scopes)
            ]
            self._stones[change.tombstone_id] = lines
            return [*lines]
        return [
            msgspec.structs.replace(
                line, revoke=True, reason=change.reason, legal_hold=False,
                signed_by=change.signed_by, recorded_at=at,
            )
            for line in self._stones.pop(change.tombstone_id, [])
        ]  # fmt: skip

    def _asserted(self, event: Recorded, fact: FactAsserted, at: str) -> list[AnyLine]:
        if fact.entity.startswith(RESOLUTION_PREFIX):
            return []  # the resolve line makes it anew
        key = fact.id or id_text(event.event_id)
        if key in self._values and fact.foreign is not None:
            return []  # another node wrapped it too
        self._values[key] = (fact.value.type, fact.value.v)
        self._origins[key] = event.header.origin
        return [
            AssertLine(
                key=key,
                entity=fact.entity,
                relation=fact.relation,
                value=LineValue(
                    fact.value.type,
                    wire_v(fact.value.type, fact.value.v),
                    fact.value.interpret_as,
                ),
                source=fact.source,
                scope=fact.scope,
                confidence=fact.confidence,
                valid_from=fact.valid_from,
                valid_until=fact.valid_until,
                derived_from=[self._parent(parent) for parent in fact.derived_from],
                write_mode=fact.write_mode,
                garden_id=None if fact.garden_id is None else self._slugs[fact.garden_id],
                attributes=msgspec.to_builtins(fact.attributes),
                recorded_at=at,
            )
        ]

    def _parent(self, parent: Parent) -> str | Parent:
        return parent.fact_id if parent.fact_id in self._values else parent  # pyright: ignore[reportReturnType]

    def _resolved(self, event: Recorded, resolution: ConflictResolved, at: str) -> list[AnyLine]:
        """One line for each losing value: the writer sets aside all facts of a value."""
        losers: dict[Any, str] = {}
        for fact in resolution.loser_ids:
            if fact in self._values:
                losers.setdefault(self._values[fact], fact)
        return [
            ResolveLine(
                winner=resolution.winner_id,
                loser=loser,
                note=resolution.note,
                source=event.header.actor,
                recorded_at=at,
            )
            for loser in losers.values()
        ]


def lines_over_http(client: Client) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """How many facts a node shows, and each of them as an ``assert`` line, newest first.

    Only what the key may read and what holds now: history and retractions need the log
    itself. Raises ClientError.
    """
    query: dict[str, object] = {
        "include_expired": True,
        "include_contradicted": True,
        "include_low_trust": True,
        "limit": 500,
    }
    slugs = {garden["id"]: garden["slug"] for garden in client.get("/v1/gardens")}
    page = client.get("/v1/facts", query)
    total = int(page["total"])

    def walk() -> Iterator[tuple[int, bytes]]:
        nonlocal page
        done = 0
        while True:
            for fact in page["facts"]:
                done += 1
                yield done, _encode(line_of_record(fact, slugs)) + b"\n"
            if not page["cursor"]:
                return
            page = client.get("/v1/facts", {**query, "cursor": page["cursor"]})

    return total, walk()


def line_of_record(fact: dict[str, Any], slugs: Mapping[str, str] = {}) -> AssertLine:
    """The ``assert`` line of a fact as the wire carries it; ``slugs``: of gardens by id."""
    value = fact["value"]
    garden = fact.get("garden_id")
    return AssertLine(
        key=fact["id"],
        entity=fact["entity"],
        relation=fact["relation"],
        value=LineValue(value["type"], value.get("v"), value.get("interpret_as", "content")),
        source=fact["source"],
        scope=fact["scope"],
        confidence=fact["confidence"],
        valid_from=fact.get("valid_from"),
        valid_until=fact.get("valid_until"),
        derived_from=[
            Parent(parent["hash"], parent.get("fact_id")) for parent in fact["derived_from"]
        ],
        garden_id=None if garden is None else slugs.get(garden, garden),
        attributes=fact.get("attributes"),
        recorded_at=fact["timestamp"],
    )
