"""Import lines of what was declared, and of what was said about facts, from their events."""

from __future__ import annotations

from typing import Any

import msgspec

from api.export_names import Names, instant_text
from api.garden_lines import EVERY_GARDEN, GardenLine, MemberLine
from api.judgement_lines import FeedbackLine, JudgedLine, MergedLine, RecalledLine, ReviewLine, Use
from api.lines import AnyLine
from api.rule_lines import RuleLine
from api.setting_lines import (
    AliasLine,
    HoldLine,
    PolicyLine,
    ProfileLine,
    SweepLine,
    TrustLine,
)
from api.tombstone_lines import TombstoneLine
from eventlog.event import Recorded
from eventlog.kinds import (
    AliasSet,
    ConsolidationRuleSet,
    ContentReviewed,
    DecaySwept,
    FactFeedback,
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    LegalHoldSet,
    MemoriesMerged,
    PolicySet,
    ProfileSet,
    QuarantineReviewed,
    RecallServed,
    SetValuedDeclared,
    SourceTrustSet,
    TombstoneRevoked,
    TombstoneSet,
    TrustPolicySet,
)
from projections.normalization import SCOPES


def declared_lines(
    event: Recorded, names: Names, stones: dict[str, list[Any]], at: str
) -> list[AnyLine]:
    """Lines of a declaration, or of what is said about facts that went out.

    ``stones``: the tombstones that went out, by id; grows and shrinks.
    """
    match event.payload:
        case GardenCreated() | GardenDeleted() | GardenMemberSet() as change:
            return _garden(change, names, at)
        case _ if not names.sieve.declarations:
            return []
        case QuarantineReviewed() as review:
            return _judged(event, review, names, at)
        case FactFeedback() as feedback:
            line = FeedbackLine(
                cited=_out(feedback.cited, names),
                rejected=_out(feedback.rejected, names),
                recorded_at=at,
            )
            return [line] if line.cited or line.rejected else []
        case RecallServed() as served:
            uses = [
                Use(
                    use.fact_id,
                    use.count,
                    instant_text(use.last_at_us),
                    [instant_text(each) for each in use.earlier_us],
                )
                for use in served.uses
                if names.origin(use.fact_id) is not None
            ]
            return [RecalledLine(uses=uses, recorded_at=at)] if uses else []
        case MemoriesMerged() as merge if names.origin(merge.kept_id) is not None:
            return [
                MergedLine(
                    kept=merge.kept_id,
                    merged=_out(merge.merged_ids, names),
                    recalls=merge.recalls,
                    instants=[instant_text(each) for each in merge.instants_us],
                    citations=merge.citations,
                    rejections=merge.rejections,
                    recorded_at=at,
                )
            ]
        case ContentReviewed() as review if names.origin(review.fact_id) is not None:
            return [
                ReviewLine(
                    target=review.fact_id,
                    decision=review.decision,
                    reason=review.reason,
                    recorded_at=at,
                )
            ]
        case _:
            return _declared(event, names, stones, at)


def _declared(
    event: Recorded, names: Names, stones: dict[str, list[Any]], at: str
) -> list[AnyLine]:
    match event.payload:
        case SetValuedDeclared() as declared:
            return [PolicyLine(set_valued=list(declared.relations), recorded_at=at)]
        case PolicySet(policy=None) as removed:
            return [PolicyLine(remove_decay=removed.policy_id, recorded_at=at)]
        case PolicySet() as policy:
            return [PolicyLine(decay=policy.policy, recorded_at=at)]
        case TrustPolicySet() as formula:
            return [PolicyLine(trust=formula.policy, recorded_at=at)]
        case SourceTrustSet() as trust:
            return [
                TrustLine(
                    source=trust.source, trust=trust.trust, reason=trust.reason, recorded_at=at
                )
            ]
        case DecaySwept() as sweep:
            gardens = [
                names.slugs.get(garden, garden)
                for garden in sweep.gardens
                if garden == EVERY_GARDEN or garden in names.slugs
            ]
            return [
                SweepLine(
                    scopes=[sweep.scope],
                    policies=list(sweep.policies),
                    gardens=gardens,
                    recorded_at=at,
                )
            ]
        case AliasSet() as alias:
            return [
                AliasLine(
                    name=alias.raw_uri,
                    entity=alias.canonical_uri,
                    kind=alias.alias_kind,
                    recorded_at=at,
                )
            ]
        case ProfileSet() as profile:
            return [ProfileLine(name=profile.name, document=profile.document, recorded_at=at)]
        case LegalHoldSet() as hold:
            return _hold(hold, names, at)
        case ConsolidationRuleSet() as rule:
            return _rule(event, rule, names, at)
        case TombstoneSet() | TombstoneRevoked() as change:
            return _tombstoned(change, stones, at)
        case _:
            return []


def _rule(event: Recorded, rule: ConsolidationRuleSet, names: Names, at: str) -> list[AnyLine]:
    """Where the episodes that it reads may be read."""
    if not names.sieve.rule(rule.rule_id):
        return []
    line = RuleLine(
        rule_id=rule.rule_id, document=rule.document, set_by=event.header.actor, recorded_at=at
    )
    return [line]


def _out(facts: list[str], names: Names) -> list[str]:
    return [fact for fact in facts if names.origin(fact) is not None]


def _hold(hold: LegalHoldSet, names: Names, at: str) -> list[AnyLine]:
    if hold.target_kind == "entity":
        return [HoldLine(entity=hold.target, held=hold.held, recorded_at=at)]
    if names.origin(hold.target) is None:
        return []
    return [HoldLine(target=hold.target, held=hold.held, recorded_at=at)]


def _judged(event: Recorded, review: QuarantineReviewed, names: Names, at: str) -> list[AnyLine]:
    """Where both facts went out; to whom one is hidden, there is no judgement."""
    admitted = review.admitted_fact_id
    if not _out([review.fact_id, *([] if admitted is None else [admitted])], names):
        return []
    if names.origin(review.fact_id) is None:
        return []
    if admitted is not None and names.origin(admitted) is None:
        return []
    return [
        JudgedLine(
            target=review.fact_id,
            garden=names.garden(review.garden_id) or review.garden_id,
            decision=review.decision,
            reason=review.reason,
            to=names.garden(review.target_garden_id),
            admitted=admitted,
            judged_by=event.header.actor,
            recorded_at=at,
        )
    ]


def _garden(
    change: GardenCreated | GardenDeleted | GardenMemberSet, names: Names, at: str
) -> list[AnyLine]:
    if not names.sieve.garden(change.garden_id):
        return []
    if isinstance(change, GardenCreated):
        names.slugs[change.garden_id] = change.slug
        line = GardenLine(
            slug=change.slug,
            id=change.garden_id,
            name=change.name,
            scope=change.scope,
            description=change.description,
            quarantine=change.quarantine,
            created_by=change.created_by,
            recorded_at=at,
        )
        return [line]
    slug = names.garden(change.garden_id) or change.garden_id
    if isinstance(change, GardenDeleted):
        return [GardenLine(slug=slug, remove=True, recorded_at=at)]
    return [
        MemberLine(
            garden=slug,
            entity_uri=change.entity_uri,
            role=change.role,
            added_by=change.added_by,
            recorded_at=at,
        )
    ]


def _tombstoned(
    change: TombstoneSet | TombstoneRevoked, stones: dict[str, list[Any]], at: str
) -> list[AnyLine]:
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
        stones[change.tombstone_id] = lines
        return [*lines]
    return [
        msgspec.structs.replace(
            line, revoke=True, reason=change.reason, legal_hold=False,
            signed_by=change.signed_by, recorded_at=at,
        )
        for line in stones.pop(change.tombstone_id, [])
    ]  # fmt: skip
