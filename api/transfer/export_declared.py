"""Import lines of declarations, and of events about facts."""

from typing import TypeAlias

import msgspec

from engramlog.api.answers.same_fields import shaped
from engramlog.api.transfer.export_names import Names
from engramlog.api.transfer.lines.declarations import (
    EVERY_GARDEN,
    GardenLine,
    HoldLine,
    PolicyLine,
    SweepLine,
    TombstoneLine,
)
from engramlog.api.transfer.lines.line_kinds import AnyLine
from engramlog.api.transfer.lines.payload_lines import (
    PAYLOADS,
    SHAPES,
    PayloadLine,
    mapped,
    says_nothing,
)
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConsolidationRuleSet,
    DecaySwept,
    DeltaRejected,
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    LegalHoldSet,
    Payload,
    PolicySet,
    SetValuedDeclared,
    TombstoneRevoked,
    TombstoneSet,
    TrustPolicySet,
)
from engramlog.projections.normalization import SCOPES

Stones: TypeAlias = dict[tuple[str, str | None], list[TombstoneLine]]
"""Lines of the exported tombstones, by id and signer."""


def declared_lines(event: Recorded, names: Names, stones: Stones) -> list[AnyLine]:
    """Lines of a declaration, or of an event about exported facts. ``stones``: the exported
    tombstones, by id and signer; changes in place."""
    payload = event.payload
    if isinstance(payload, GardenCreated | GardenDeleted):
        return _garden(payload, names)
    if isinstance(payload, Payload) and type(payload).line in PAYLOADS:
        return payload_lines(event, payload, names)
    return _declared(payload, names, stones) if names.sieve.declarations else []


def payload_lines(event: Recorded, payload: Payload, names: Names) -> list[AnyLine]:
    """The line of a payload, redacted for the caller; empty if nothing remains."""
    if not _may_go(payload, names):
        return []
    left = mapped(
        payload,
        {
            "fact": lambda fact, _: None if names.origin(fact) is None else fact,
            "episode": lambda key, _: next(iter(names.episodes([key])), None),
            "garden": lambda garden, _: names.garden(garden),
        },
    )
    if left is None or says_nothing(left):
        return []
    shape = SHAPES.get(type(payload))
    actor = event.header.actor if shape is not None and shape.actor else None
    return [PayloadLine(payload=left, actor=actor)]


def _may_go(payload: Payload, names: Names) -> bool:
    """Whether the caller may know of it."""
    match payload:
        case GardenMemberSet():
            return names.sieve.garden(payload.garden_id)
        case DeltaRejected():
            return names.sieve.rejection(payload)
        case ConsolidationRuleSet():
            return names.sieve.declarations and names.sieve.rule(payload.rule_id)
        case _:
            return names.sieve.declarations


def _declared(payload: object, names: Names, stones: Stones) -> list[AnyLine]:
    match payload:
        case SetValuedDeclared() as declared:
            return [PolicyLine(set_valued=list(declared.relations))]
        case PolicySet(policy=None) as removed:
            return [PolicyLine(remove_decay=removed.policy_id)]
        case PolicySet() as policy:
            return [PolicyLine(decay=policy.policy)]
        case TrustPolicySet() as formula:
            return [PolicyLine(trust=formula.policy)]
        case DecaySwept() as sweep:
            gardens = [
                names.slugs.get(garden, garden)
                for garden in sweep.gardens
                if garden == EVERY_GARDEN or garden in names.slugs
            ]
            return [SweepLine(scopes=[sweep.scope], policies=list(sweep.policies), gardens=gardens)]
        case LegalHoldSet() as hold:
            return _hold(hold, names)
        case TombstoneSet() | TombstoneRevoked() as change:
            return _tombstoned(change, stones)
        case _:
            return []


def _hold(hold: LegalHoldSet, names: Names) -> list[AnyLine]:
    if hold.target_kind == "entity":
        return [HoldLine(entity=hold.target, held=hold.held, reason=hold.reason)]
    if names.origin(hold.target) is None:
        return []
    return [HoldLine(target=hold.target, held=hold.held, reason=hold.reason)]


def _garden(change: GardenCreated | GardenDeleted, names: Names) -> list[AnyLine]:
    if not names.sieve.garden(change.garden_id):
        return []
    if isinstance(change, GardenCreated):
        names.slugs[change.garden_id] = change.slug
        return [shaped(change, GardenLine, id=change.garden_id)]
    slug = names.garden(change.garden_id) or change.garden_id
    return [GardenLine(slug=slug, remove=True)]


def _tombstoned(change: TombstoneSet | TombstoneRevoked, stones: Stones) -> list[AnyLine]:
    """One line per scope if it hides several but not all."""
    if isinstance(change, TombstoneSet):
        every = len(change.scopes) == len(SCOPES)
        lines = [
            shaped(
                change,
                TombstoneLine,
                scope=scope,
                legal_hold=change.legal_hold and change.node_id is None,
            )
            for scope in (["all"] if every else change.scopes)
        ]
        stones[change.tombstone_id, change.node_id] = lines
        return [*lines]
    meant = [
        key for key in stones if key[0] == change.tombstone_id and change.node_id in (None, key[1])
    ]
    return [
        msgspec.structs.replace(
            line, revoke=True, reason=change.reason, legal_hold=False,
            signed_by=change.signed_by,
        )
        for key in meant for line in stones.pop(key)
    ]  # fmt: skip
