"""An episode and a fact of the two memories, as their stores return them."""

from typing import Any

from msgspec import Struct, field

from engramlog.projections.memories.place import MemoryPlace


class Episode(Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened. ``key`` is the event id, ``id`` the recorder's name for it.

    ``at_us``: when it happened; ``position``: when this node learned of it. ``hash``: that of the
    event, with which a fact proves its origin. ``actor``: who recorded it; ``peer``: through which
    peer it came; ``namesake``: whether another recorder had used its id there before.
    """

    id: str
    content: str
    at_us: int
    user: str = ""
    session: str = ""
    agent: str = ""
    scope: str = "local"
    key: str = ""
    garden_id: str | None = None
    source_node: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    step: int | None = None
    position: int = 0
    hash: str = ""
    actor: str = ""
    peer: str | None = None
    namesake: bool = False
    access_count: int = 0
    last_access_us: int | None = None

    @property
    def place(self) -> MemoryPlace:
        """The place of the facts derived from it."""
        return MemoryPlace(self.user, self.agent, self.scope, self.garden_id)

    @property
    def name(self) -> str:
        """Its id, with what tells it from others of this id: the peer it came through, and its
        recorder if the id was another's first."""
        told = f"{self.actor}\n{self.id}" if self.namesake else self.id
        return told if self.peer is None else f"{self.peer}\n{told}"

    def text(self, name: str) -> str | None:
        """A text of the metadata; None if it is absent or empty."""
        value = self.metadata.get(name)
        return value if isinstance(value, str) and value else None


class MemoryFact(Struct, frozen=True, kw_only=True, gc=False):
    """A fact that a delta wrote: ``id`` is its name in deltas, ``fact_id`` its id on the node.
    ``lineage`` leads to episodes and run; ``version`` counts the facts with this ``id`` so far."""

    id: str
    fact_id: str
    user: str
    agent: str
    scope: str
    garden_id: str | None
    payload: dict[str, Any]
    lineage: list[dict[str, Any]]
    confidence: float
    version: int
    delta_id: str
    provenance: dict[str, str]
    pinned_at: str


class FactOfDelta(Struct, frozen=True, gc=False):
    """What the log says of a fact that a delta wrote, beside the fact itself. ``sources``,
    ``payload``, ``provenance`` and ``lineage`` are JSON as stored: few of many are decoded."""

    fact_id: str
    user: str
    agent: str
    name: str
    subject: str | None
    partition: str
    delta_id: str
    rule_id: str
    run_id: str | None
    promotion_us: int
    sources: str
    payload: str
    provenance: str
    lineage: str
    scope: str
    garden_id: str | None
    version: int


class FactPattern(Struct, frozen=True, kw_only=True):
    """Which facts: None matches everything, all else by equality. ``user`` is required."""

    user: str
    agent: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
