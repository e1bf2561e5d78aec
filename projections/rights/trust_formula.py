"""Trust in a source, ``t(source)`` in [0, 1]: the warrant of a fact, and the formula (wire 3.5).

Writers under their own name are trusted fully: callers without a key (the machine's operator), keys
that write under their own name, and sources with a key of this node. The formula weighs the
evidence on all other sources. An operator's setting overrides both.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct

from engramlog.eventlog.kinds import TrustPolicy
from engramlog.projections.arrays import F64

Identity = Literal["logged", "manifest", "key", "bare"]
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


class TrustEvidence(Struct, frozen=True, kw_only=True):
    """This node's record of a source and the peer it came through. ``observations``: facts received
    from the peer. ``failures``: those that did not verify. ``signed``: a registered key of the
    source signed the fact."""

    identity: Identity = "bare"
    observations: int = 0
    failures: int = 0
    authority: Authority = "other"
    signed: bool = False


def trust_score(evidence: TrustEvidence, policy: TrustPolicy) -> float:
    """Weighted sum of identity, peer history, scope authority and attestation; in [0, 1]."""
    identity = {
        "logged": policy.identity_logged,
        "manifest": policy.identity_manifest,
        "key": policy.identity_key,
        "bare": policy.identity_bare,
    }[evidence.identity]
    authority = {
        "self": policy.authority_self,
        "own": policy.authority_own,
        "shared": policy.authority_shared,
        "other": policy.authority_other,
    }[evidence.authority]
    attested = policy.attestation_signed if evidence.signed else policy.attestation_default
    score = (
        policy.identity_weight * identity
        + policy.history_weight * history_level(evidence, policy)
        + policy.authority_weight * authority
        + policy.attestation_weight * attested
    )
    return round(min(1.0, max(0.0, score)), TRUST_DECIMALS)


def history_level(evidence: TrustEvidence, policy: TrustPolicy) -> float:
    """New below ``history_known_from`` observations; then failing, proven or just known."""
    if evidence.observations < policy.history_known_from:
        return policy.history_new
    if evidence.failures >= policy.history_failing_share * evidence.observations:
        return policy.history_failing
    if evidence.observations >= policy.history_proven_from and not evidence.failures:
        return policy.history_proven
    return policy.history_known


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
    levels = [trust_score(TrustEvidence(authority=each), policy) for each in AUTHORITIES]
    table: F64 = np.array([1.0, *levels, *levels])
    table.flags.writeable = False
    return table


@lru_cache(maxsize=4_096)
def _authority(uri: str) -> str:
    return uri[len(_FORMAL) :].split("/", 1)[0] if uri.startswith(_FORMAL) else ""
