"""The plan: the profile, overridden by the request."""

from msgspec import Struct

from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate

UNBOUNDED = 2**62
"""More tokens than any facts cost."""


class Plan(Struct, frozen=True):
    """Everything decided before any fact is read.

    ``weights``: by stage name, and by name of each factor that adds; not yet scaled to the stages
    that complete. ``token_budget`` is ``UNBOUNDED`` if the profile counts only facts. ``diverse``
    is False if MMR would break the answer's order. ``spread``: how much a chosen fact lowers the
    others of its conversation (see ``Overview``).
    """

    profile: Profile
    weights: dict[str, float]
    gate: Gate
    depth: int
    lambda_mmr: float
    diverse: bool
    limit: int
    token_budget: int
    spread: float = 0.0


def make_plan(profile: Profile, request: RecallRequest) -> Plan:
    """The profile, overridden by the request."""
    gate, diversity = profile.gate, profile.diversity
    asked = request.min_confidence
    effective_min = gate.min_confidence if asked is None else asked
    if not request.include_low_trust:
        effective_min = max(effective_min, gate.low_trust)
    given = request.weights or {}
    contradicted = request.include_contradicted
    packing = profile.packing
    limit = packing.limit if request.limit is None else min(request.limit, packing.limit_max)
    lambda_mmr = diversity.lambda_mmr if request.lambda_mmr is None else request.lambda_mmr
    return Plan(
        profile=profile,
        weights={key: given.get(key, weight) for key, weight in profile.weights.items()},
        gate=Gate(
            effective_min,
            gate.include_contradicted if contradicted is None else contradicted,
        ),
        depth=profile.depth if request.depth is None else request.depth,
        lambda_mmr=lambda_mmr,
        diverse=lambda_mmr < 1.0 and request.entity is None,
        limit=limit,
        token_budget=UNBOUNDED if packing.by == "count" else request.token_budget,
    )
