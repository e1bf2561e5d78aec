"""Trust in a source, ``t(source)`` in [0, 1]: the warrant of a fact, and the formula (wire 3.5).

Writers under their own name are trusted fully: callers without a key (the machine's operator), keys
that write under their own name, and sources with a key of this node. The formula weighs the
evidence on all other sources. An operator's setting overrides both.
"""

from functools import lru_cache
from typing import Literal

import numpy as np

from engramlog.eventlog.kinds import TrustPolicy
from engramlog.projections.arrays import F64

Authority = Literal["self", "own", "shared", "other"]

AUTHORITIES: tuple[Authority, ...] = ("other", "shared", "own", "self")
WRITTEN_HERE = 0
"""Warrant of a fact whose writer is known as its source, or that this node has no reason to
doubt."""
CLAIMED = 1
"""First warrant of facts that a key of this node wrote under another name, by authority."""
RECEIVED = CLAIMED + len(AUTHORITIES)
"""First warrant of facts received from a peer, by authority."""
WARRANTS = RECEIVED + len(AUTHORITIES)
TRUST_DECIMALS = 6

_FORMAL = "stigmem://"


def trust_score(authority: Authority, policy: TrustPolicy) -> float:
    """Weighted sum of identity, peer history, scope authority and attestation; in [0, 1]. Of the
    first, second and last a node has no evidence yet: each counts as without any."""
    level = {
        "self": policy.authority_self,
        "own": policy.authority_own,
        "shared": policy.authority_shared,
        "other": policy.authority_other,
    }[authority]
    score = (
        policy.identity_weight * policy.identity_bare
        + policy.history_weight * policy.history_new
        + policy.authority_weight * level
        + policy.attestation_weight * policy.attestation_default
    )
    return round(min(1.0, max(0.0, score)), TRUST_DECIMALS)


def authority_of(source: str, entity: str, scope: str) -> Authority:
    """How close the fact is to its source: about itself, about an entity of its authority
    (``stigmem://AUTHORITY/…``), in a shared scope, or none of these."""
    authority = _authority(source)
    if authority and entity == source:
        return "self"
    if authority and _authority(entity) == authority:
        return "own"
    return "shared" if scope in ("team", "public") else "other"


def warrant_of(
    *, source: str, entity: str, scope: str, actor: str, keyed: bool, received: bool
) -> int:
    """A small number for what vouches for a fact. A fact's trust depends only on it, on operators'
    settings, and on the sources with keys. ``keyed``: whether the actor held a key of this node
    when it wrote. ``received``: whether the fact came from a peer."""
    if not received and (actor == source or not keyed):
        return WRITTEN_HERE
    first = RECEIVED if received else CLAIMED
    return first + AUTHORITIES.index(authority_of(source, entity, scope))


@lru_cache(maxsize=64)
def trust_levels(policy: TrustPolicy) -> F64:
    """By warrant: the trust without further evidence."""
    if policy.mode == "off":
        return np.ones(WARRANTS)
    levels = [trust_score(each, policy) for each in AUTHORITIES]
    table: F64 = np.array([1.0, *levels, *levels])
    table.flags.writeable = False
    return table


@lru_cache(maxsize=4_096)
def _authority(uri: str) -> str:
    return uri[len(_FORMAL) :].split("/", 1)[0] if uri.startswith(_FORMAL) else ""
