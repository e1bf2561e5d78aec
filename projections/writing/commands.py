"""The writer's commands and answers. Plain data.

Most commands are payloads (``eventlog.kinds``): "record this, if the state allows it". The classes
below are the commands whose shape differs from the recorded event. Callers validate and normalise a
command first; the writer decides whether it may happen.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ContentReviewed,
    DecayPolicy,
    ErasureReason,
    FactAsserted,
    GardenMemberSet,
    Payload,
    SubscriptionSet,
    Value,
)

if TYPE_CHECKING:
    from engramlog.projections.authorization import Authorization
else:  # it masks arrays; commands that only write load without numpy
    Authorization = object


class OwnShape(Struct, frozen=True):
    """Base of the commands that are not payloads."""


Command: TypeAlias = OwnShape | Payload
"""All commands of the writer."""


class OnBehalf(OwnShape, frozen=True):
    """An act of another entity, as another log has it: recorded with ``actor`` as its actor."""

    actor: str
    command: Command


class AssertFact(OwnShape, frozen=True, gc=False):
    """State a fact, which has its content id. With ``confidence`` 0 it ends its source's earlier
    facts and denies those of others (``decide.facts.retracting``).

    ``rights``, here and in other commands: the caller's; what they cannot read does not show in the
    outcome; None for the node's own tools, which may do anything. ``again``: state a new fact
    beside an equal one, as another log has both. ``zero``: the effect of a record of confidence 0
    when another log defines it: none, because the log has the effect as separate events; or, in
    files of version 0.1, an end of all facts that it contradicts.
    """

    fact: FactAsserted
    again: bool = False
    zero: Literal["follows its source", "does nothing", "ends all"] = "follows its source"
    rights: Authorization | None = None


class RefusedItem(OwnShape, frozen=True):
    """The place of a request's item that was refused before the writer. With it, outcomes stay at
    their items when the request is repeated and another item is refused."""


class RetractFact(OwnShape, frozen=True, kw_only=True, gc=False):
    """Retract a fact by id. ``marker_id``: the confidence-0 record that ended it in another log."""

    fact_id: str
    reason: str = ""
    rights: Authorization | None = None
    marker_id: str | None = None


class RetractMatching(OwnShape, frozen=True, kw_only=True, gc=False):
    """Retract the one live fact with exactly this content."""

    entity: str
    relation: str
    value: Value
    scope: str
    source: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    reason: str = ""
    garden_id: str | None = None


class ResolveConflict(OwnShape, frozen=True, kw_only=True):
    """Settle a contradiction in favour of one of its facts, or of a new value. ``fact_id``: the
    fact of the disputed value, for a caller who may not see the whole key. The command then settles
    the conflict that the caller sees, not the one in the table."""

    conflict_id: str
    source: str
    fact_id: str | None = None
    settled: bool = False
    winning_fact_id: str | None = None
    new_value: Value | None = None
    note: str = ""
    rights: Authorization | None = None


class ReviewContent(OwnShape, frozen=True, kw_only=True):
    """Decide on a flagged fact."""

    review: ContentReviewed
    rights: Authorization | None = None


class SweepDecay(OwnShape, frozen=True, kw_only=True):
    """Sweep scopes now with the given policies: facts outside gardens, and those in ``gardens``
    (ids, or ``*`` for all)."""

    scopes: tuple[str, ...]
    policies: tuple[DecayPolicy, ...]
    gardens: tuple[str, ...] = ()


class RevokeCapability(OwnShape, frozen=True, kw_only=True):
    """Revoke a token of this node (``node_id``), or one derived from it (``revocation_id``)."""

    token_id: str
    node_id: str
    revocation_id: str = ""
    reason: str = ""


class RevokeAgentKey(OwnShape, frozen=True, kw_only=True):
    key_id: str


class DeleteGarden(OwnShape, frozen=True, kw_only=True):
    garden_id: str
    rights: Authorization | None = None


class SetMember(OwnShape, frozen=True, kw_only=True):
    """Give a member a role, or none. ``change`` states the condition: a member to add must be new,
    every other must exist."""

    member: GardenMemberSet
    change: Literal["add", "change", "remove"]
    rights: Authorization | None = None


class ReviewQuarantined(OwnShape, frozen=True, kw_only=True):
    """Decide on a fact that waits in a quarantine garden; ``garden_id``: only if in this one."""

    fact_id: str
    decision: Literal["admitted", "rejected"]
    reason: str = ""
    garden_id: str | None = None
    target_garden_id: str | None = None
    rights: Authorization | None = None


class Subscribe(OwnShape, frozen=True, kw_only=True):
    """Report changes to a subscriber from now on; at most ``most`` subscriptions per subscriber."""

    subscription: SubscriptionSet
    most: int


class Unsubscribe(OwnShape, frozen=True, kw_only=True):
    """End a subscription; ``subscriber``: only if it is theirs."""

    subscription_id: str
    subscriber: str | None
    reason: str = ""


class Refused(Struct, frozen=True):
    """Why a command was refused; it wrote nothing. ``code`` is a stable snake_case name
    (``docs/errors.md``), ``field`` the request field."""

    code: str
    message: str
    field: str | None = None


class CommandRefused(Exception):
    """A check of a decision failed: the command is ``refused``."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.code)
        self.refused = refused


class Done(Struct, frozen=True, gc=False):
    """The outcome of a command.

    Attributes:
        events: the recorded events (empty if the state already was as requested).
        fact_id: the fact that answers the command, if any.
        created: False if an equal live fact already answered.
        contradicted: whether the fact now has a live sibling with another value.
        retracted: ids of facts that ended through this command.
        detail: further answers by name (conflict and resolution ids, counts).
    """

    events: list[Recorded]
    fact_id: str | None = None
    created: bool = True
    contradicted: bool = False
    retracted: tuple[str, ...] = ()
    detail: dict[str, Any] = {}

    @property
    def position(self) -> int | None:
        """The last position this command wrote, or None."""
        return self.events[-1].position if self.events else None


class WriteAnswer(Struct, frozen=True):
    """One outcome per command, in order, and the log's head after them."""

    outcomes: list[Done | Refused]
    position: int
    replayed: bool = False


class EraseFacts(OwnShape, frozen=True, kw_only=True):
    """Erase facts by id, with every copy of their content (see ``decide.facts.erasing``).

    ``entity``: erase every fact about it instead, and with ``mentions`` every fact with it as the
    value. ``derived``: also facts derived from erased ones. ``events``: ids of further events to
    erase, such as receipts that repeat the text.
    """

    erasure_id: str
    fact_ids: tuple[str, ...] = ()
    entity: str | None = None
    mentions: bool = True
    derived: bool = False
    episodes: bool = False
    rights: Authorization | None = None
    reason: ErasureReason = "unspecified"
    events: tuple[str, ...] = ()


class EraseEvents(OwnShape, frozen=True, kw_only=True):
    """Erase the payloads of more local events under an existing erasure."""

    erasure_id: str
    reason: ErasureReason = "unspecified"
    events: tuple[str, ...] = ()


class SetAttributes(OwnShape, frozen=True, kw_only=True):
    """Change attributes of a fact. ``changes``: by field. ``relevance_change`` is added to the
    present relevance, within its bounds."""

    fact_id: str
    changes: dict[str, Any]
    relevance_change: int = 0
    rights: Authorization | None = None
