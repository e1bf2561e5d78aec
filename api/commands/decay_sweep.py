"""Sweeps: which policies apply, and how many facts they would change."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from engramlog.eventlog.kinds import DecayPolicy
from engramlog.projections.arrays import F64, I32, I64, Bool
from engramlog.projections.ascending import grouped
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.facts.decay import (
    decayed_confidence,
    is_exempt,
    may_decay,
    policy_for,
    retracted_by,
)

REQUEST_POLICY_ID = "request"


class Reach(Struct, frozen=True):
    """``scanned``: live facts under a policy. ``decayed``: facts that would change."""

    scanned: int
    decayed: int


def policy_of_request(
    ttl_seconds: float | None, min_confidence: float | None
) -> DecayPolicy | None:
    """The policy in a sweep's own fields, if any; a TTL of 0 ends everything."""
    if ttl_seconds is None and min_confidence is None:
        return None
    return DecayPolicy(
        id=REQUEST_POLICY_ID, mode="retract", ttl_s=ttl_seconds, min_confidence=min_confidence
    )


def reach_of(
    view: View,
    authorization: Authorization,
    moment: Moment,
    policies: Sequence[DecayPolicy],
) -> Reach:
    """The reach of a sweep over the caller's scopes at the moment."""
    slots = live(view, authorization, moment)
    slots = slots[may_decay(view, slots)]
    labels = view.relation[slots].astype(np.int64) * len(SCOPES) + view.scope[slots]
    scanned = changed = 0
    for label, places in grouped(labels):
        relation, scope = view.relations.text(label // len(SCOPES)), SCOPES[label % len(SCOPES)]
        policy = policy_for(policies, relation, scope)
        if policy is None or is_exempt("", relation):
            continue
        rows = slots[places]
        scanned += len(rows)
        changed += int(np.count_nonzero(_changes(view, rows, moment, policy)))
    return Reach(scanned, changed)


def _changes(view: View, rows: I32, moment: Moment, policy: DecayPolicy) -> Bool:
    """Which rows the policy would end or weaken."""
    current = view.confidence(rows, moment)
    age: I64 = moment.instant_us - view.recorded_at[rows]
    if policy.mode == "retract":
        return retracted_by(policy, current, age)
    after: F64 = current
    if policy.half_life_s is not None:
        floor = policy.min_confidence or 0.0
        after = decayed_confidence(view.base[rows], age, policy.half_life_s, floor)
    differs: Bool = after != current
    return differs
