"""Declarations by operators: policies, profiles, aliases, trust, subscriptions."""

from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from engramlog.eventlog.kinds.payload import EntityUri, InstantUs, Payload


class DecayPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How facts lose confidence. ``*`` matches every relation or scope. ``confidence`` mode:
    half-life ``half_life_s`` with ``min_confidence`` as the floor. ``retract`` mode: retract facts
    older than ``ttl_s`` or with confidence below ``min_confidence``."""

    id: str
    relation: str = "*"
    scope: str = "*"
    mode: Literal["retract", "confidence"] = "retract"
    ttl_s: float | None = None
    half_life_s: float | None = None
    min_confidence: float | None = None
    exempt_relations: list[str] = field(default_factory=list)


class DecaySwept(Payload, frozen=True, tag="decay_swept"):
    """One sweep of one scope at ``at_us``, with the policies of that time. Covers facts outside
    gardens, and those of ``gardens`` (ids, or ``*`` for all)."""

    version: ClassVar[int] = 2
    line: ClassVar[str] = "sweep"
    scope: str
    at_us: InstantUs
    policies: list[DecayPolicy]
    gardens: list[str] = field(default_factory=list)


class PolicySet(Payload, frozen=True, tag="policy_set"):
    """A decay policy was set, or removed if ``policy`` is null."""

    line: ClassVar[str] = "policy"
    policy_id: str
    policy: DecayPolicy | None = None


class SetValuedDeclared(Payload, frozen=True, tag="set_valued_declared"):
    """Relations (labels or suffix-``*`` globs) that may hold several values at once."""

    line: ClassVar[str] = "policy"
    relations: list[str]


class ProfileSet(Payload, frozen=True, tag="profile_set"):
    """A recall profile was installed under ``name``, or removed if null."""

    line: ClassVar[str] = "profile"
    name: str
    document: dict[str, Any] | None = None


class AliasSet(Payload, frozen=True, tag="alias_set"):
    """The name ``raw_uri`` means the entity ``canonical_uri`` from now on; null removes the
    alias."""

    line: ClassVar[str] = "alias"
    raw_uri: EntityUri
    canonical_uri: EntityUri | None = None
    alias_kind: Literal["user", "migration"] = "user"


class SourceTrustSet(Payload, frozen=True, tag="source_trust_set"):
    """This node's trust in ``source`` is ``trust``, in [0, 1], from now on."""

    line: ClassVar[str] = "trust"
    source: EntityUri
    trust: float
    reason: str = ""


class TrustPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to compute trust in a source without a setting; all in [0, 1] except the
    counts. The trust is the weighted sum of one level of each group.

    ``mode``: ``off`` trusts every source fully. ``hidden_below`` (``strict_hidden_below`` in
    ``strict`` mode): lists leave out facts of lower effective confidence whose source is not fully
    trusted.
    """

    mode: Literal["strict", "relaxed", "off"] = "relaxed"
    identity_weight: float = 0.35
    history_weight: float = 0.30
    authority_weight: float = 0.25
    attestation_weight: float = 0.10
    identity_logged: float = 1.0
    identity_manifest: float = 0.7
    identity_key: float = 0.4
    identity_bare: float = 0.1
    history_new: float = 0.5
    history_known: float = 0.7
    history_failing: float = 0.3
    history_proven: float = 1.0
    history_known_from: int = 10
    history_proven_from: int = 100
    history_failing_share: float = 0.05
    authority_self: float = 0.9
    authority_own: float = 0.7
    authority_shared: float = 0.5
    authority_other: float = 0.2
    attestation_signed: float = 1.0
    attestation_default: float = 0.2
    hidden_below: float = 0.2
    strict_hidden_below: float = 0.3


class TrustPolicySet(Payload, frozen=True, tag="trust_policy_set"):
    """This policy computes trust in sources from now on."""

    line: ClassVar[str] = "policy"
    policy: TrustPolicy


class EmbeddingModelPinned(Payload, frozen=True, tag="embedding_model_pinned"):
    """This model embeds facts from now on; vectors of other models are not compared.
    ``truncated_dimensions``: how many numbers of each vector are kept, null for all. ``recipe``:
    the rule that turns a fact into the embedded text."""

    provider: str
    model: str
    dimensions: int
    recipe: str
    truncated_dimensions: int | None = None


class SubscriptionSet(Payload, frozen=True, tag="subscription_set"):
    """A subscription to changes, or its end if ``ended``. ``key_id``: the key that made it (null
    without one); that key's rights at delivery decide what is delivered. ``target``: a scope or an
    entity."""

    subscription_id: str
    subscriber: str
    target: str
    target_kind: Literal["scope", "entity"]
    on_change: Literal["webhook", "wake"]
    delivery_address: str
    event_types: list[str]
    key_id: str | None = None
    idempotency_key: str | None = None
    ended: bool = False
    reason: str = ""


class WebhookProgress(Struct, frozen=True):
    """A subscription got what is due to it up to ``position``."""

    subscription_id: str
    position: int


class WebhooksDelivered(Payload, frozen=True, tag="webhooks_delivered"):
    """How far webhooks were delivered, noted now and then, for a node that takes over."""

    progress: list[WebhookProgress]
