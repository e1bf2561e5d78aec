"""Both stores over a node: a directory, or any memory that ``AsyncMemory`` reaches."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from sys import maxsize
from typing import Any, cast
from urllib.parse import quote

from pydantic import TypeAdapter

from engramlog.api.client.client import ClientError
from engramlog.api.python.async_memory import AsyncMemory
from engramlog.api.python.node_requests import NodeRequests
from engramlog.api.python.stargraph.protocol import (
    AddDelta,
    AnyDelta,
    ConsolidationRule,
    DeleteDelta,
    Episode,
    EpisodeConflict,
    FactPattern,
    MemorisedFact,
    MemoryDelta,
    MigrationPlan,
    StoreHealth,
    UpdateDelta,
    check_stargraph_delta,
    utc_text,
)
from engramlog.projections.episodes.delta import ConsolidationRuleError, FactConflictError
from engramlog.projections.memories.place import MemoryScopeError, name_part

PAGE = 1_000
OWNERS_LOOKED_AT = 100
PINNED, UNPINNED = "pin", "unpin"
"""Rule ids of facts pinned and unpinned by hand."""
AS_PINNED = "_pinned"
"""A field of a pinned fact's payload on the node: what its delta has no place for."""
_deltas: TypeAdapter[AnyDelta] = TypeAdapter(MemoryDelta)


class _NodeStore:
    """The base of both stores: place and scope."""

    _projector: str

    def __init__(
        self, place: str | os.PathLike[str] | AsyncMemory, *, scope: str = "local"
    ) -> None:
        memory = place if isinstance(place, AsyncMemory) else AsyncMemory(place, scope=scope)
        self._memory = memory
        self._requests: NodeRequests = memory.requests
        self._scope = scope

    async def bootstrap(self) -> None:
        """Connect to the place. Idempotent."""
        await self._requests.transport()

    async def health(self) -> StoreHealth:
        status = await self._requests.ask("GET", "/readyz", accept=(503,))
        projector = status["projections"][self._projector]
        return StoreHealth(
            ok="reason" not in status,
            version=projector["version"],
            position=status["position"],
            warnings=[status["reason"]] if "reason" in status else [],
        )

    async def migrate(self, plan: MigrationPlan) -> None:
        """Raises MigrationNotSupported except for added nullable columns, which need no change."""
        plan.check()

    async def close(self) -> None:
        """Release the place. Idempotent."""
        await self._memory.close()


class NodeMemoryStore(_NodeStore):
    """Implements ``MemoryStore``."""

    _projector = "episodes"

    async def put(self, episode: Episode, *, user: str, session: str, agent: str) -> None:
        body: dict[str, Any] = {
            "id": episode.id,
            "content": episode.content,
            "source_node": episode.source_node,
            "metadata": episode.metadata,
            "user": name_part("user", user),
            "session": name_part("session", session),
            "agent": name_part("agent", agent),
            "scope": self._scope,
        }
        if episode.timestamp is not None:
            body["timestamp"] = utc_text(episode.timestamp)
        try:
            await self._requests.ask("POST", "/v1/episodes", body=body)
        except ClientError as fault:
            if fault.code == "episode_conflict":
                raise EpisodeConflict(str(fault)) from fault
            raise

    async def recent(
        self, user: str, session: str | None = None, agent: str | None = None, *, limit: int
    ) -> list[Episode]:
        names = {"user": user, "session": session, "agent": agent}
        query = {name: name_part(name, given) for name, given in names.items() if given is not None}
        query["scope"] = self._scope
        found, _ = await self._requests.items("/v1/episodes", "episodes", query, limit, PAGE)
        return [Episode.model_validate(each) for each in found]

    async def consolidate(self, rule: ConsolidationRule) -> list[AnyDelta]:
        """See ``MemoryStore``. Installs the rule, disabled, so that the node never runs it
        automatically; this needs the permission ``admin``. Raises ConsolidationRuleError:
        ``when_filter`` is not empty."""
        if rule.when_filter:
            reason = "when_filter must be empty: rules hold no SQL"
            raise ConsolidationRuleError(rule.id, "rule", reason)
        path = f"/v1/consolidation/rules/{quote(rule.id, safe='')}"
        document = {"cadence": rule.cadence, "scope": self._scope, "enabled": False}
        await self._requests.ask("PUT", path, body=document)
        report = await self._requests.ask("POST", f"{path}/run", body={"dry_run": True})
        made = [_deltas.validate_python(each) for each in report["deltas"]]
        return [each for each in made if not rule.then_emits or each.kind in rule.then_emits]


class NodeFactStore(_NodeStore):
    """Implements ``FactStore``.

    ``user`` and ``agent``: the owner of the facts. By default the delta decides: by its payload,
    else its source episodes, else the facts that it replaces.
    """

    _projector = "deltas"

    def __init__(
        self,
        place: str | os.PathLike[str] | AsyncMemory,
        *,
        scope: str = "local",
        user: str | None = None,
        agent: str | None = None,
    ) -> None:
        super().__init__(place, scope=scope)
        self._user = user
        self._agent = agent

    async def pin(self, fact: MemorisedFact) -> None:
        if not fact.lineage:
            raise ConsolidationRuleError(PINNED, "add", "lineage must be non-empty")
        first = fact.lineage[0]
        sources = first.get("source_episode_ids") or [first.get("triple_id") or fact.id]
        beyond = fact.model_dump(mode="json", include={"lineage", "metadata"})
        beyond["named"] = "id" in fact.payload
        delta = AddDelta(
            fact_payload={**fact.payload, "id": fact.id, AS_PINNED: beyond},
            source_episode_ids=[str(each) for each in sources],
            promotion_ts=fact.pinned_at,
            rule_id=str(first.get("rule_id") or PINNED),
            confidence=fact.confidence,
        )
        await self._apply(delta, (fact.user, fact.agent), run_id=first.get("run_id"))

    async def query(self, pattern: FactPattern) -> list[MemorisedFact]:
        """See ``FactStore``. Raises MemoryScopeError without a user."""
        user = pattern.user if pattern.user is not None else self._user
        if user is None:
            raise MemoryScopeError("user", "is required: a query reads one user's facts")
        agent = pattern.agent if pattern.agent is not None else self._agent
        query = {"user": user, "agent": agent, "scope": self._scope}
        query |= {name: getattr(pattern, name) for name in ("subject", "predicate", "object")}
        found, _ = await self._requests.items("/v1/deltas/facts", "facts", query, maxsize, PAGE)
        return [_as_pinned(MemorisedFact.model_validate(each)) for each in found]

    async def unpin(self, fact_id: str) -> None:
        """See ``FactStore``. Raises FactConflictError if facts of several owners have the id."""
        owner = await self._holder(fact_id)
        if owner is None:
            return
        delta = DeleteDelta(
            replaces=[fact_id],
            source_episode_ids=[fact_id],
            promotion_ts=datetime.now(UTC),
            rule_id=UNPINNED,
            confidence=1.0,
        )
        await self._apply(delta, owner, strict=False)

    async def apply_delta(self, delta: AnyDelta) -> None:
        """See ``FactStore``. Raises MemoryScopeError if the owner is unknown."""
        check_stargraph_delta(delta)
        await self._apply(delta, await self._owner(delta))

    async def _apply(
        self,
        delta: AnyDelta,
        owner: tuple[str, str],
        *,
        strict: bool = True,
        run_id: str | None = None,
    ) -> None:
        check_stargraph_delta(delta)
        body: dict[str, Any] = {
            "user": name_part("user", owner[0]),
            "agent": name_part("agent", owner[1]),
            "scope": self._scope,
            "strict": strict,
            "deltas": [{**delta.model_dump(), "promotion_ts": utc_text(delta.promotion_ts)}],
        }
        if run_id is not None:
            body["run_id"] = run_id
        try:
            await self._requests.ask("POST", "/v1/deltas", body=body)
        except ClientError as fault:
            raise _conflict(fault, delta) or fault from fault

    async def _owner(self, delta: AnyDelta) -> tuple[str, str]:
        payload: Mapping[str, Any] = {}
        if isinstance(delta, AddDelta | UpdateDelta):
            payload = delta.fact_payload
        user, agent = payload.get("user", self._user), payload.get("agent", self._agent)
        if isinstance(user, str) and isinstance(agent, str):
            return user, agent
        for episode in delta.source_episode_ids:
            found = await self._episode(episode)
            if found is not None:
                return found
        for name in delta.replaces if isinstance(delta, UpdateDelta | DeleteDelta) else ():
            holder = await self._holder(name)
            if holder is not None:
                return holder
        reason = "and agent are required, in the payload or the store"
        raise MemoryScopeError("user", reason)

    async def _episode(self, name: str) -> tuple[str, str] | None:
        try:
            path = f"/v1/episodes/{quote(name, safe='')}"
            found = await self._requests.ask("GET", path)
        except ClientError as fault:
            if fault.status == 404:
                return None
            raise
        return found["user"], found["agent"]

    async def _holder(self, name: str) -> tuple[str, str] | None:
        """The owner of the fact with this id: the store's if it has one, else another."""
        if self._user is not None and self._agent is not None:
            return self._user, self._agent
        query = {"name": name, "user": self._user, "limit": OWNERS_LOOKED_AT}
        page = await self._requests.ask("GET", "/v1/deltas", query=query)
        here = (each for each in page["deltas"] if each["scope"] == self._scope)
        owners = {(each["user"], each["agent"]) for each in here}
        if len(owners) > 1:
            message = f"{name!r} is a fact of several users or agents: name them to the store"
            raise FactConflictError("scope_mismatch", message)
        return owners.pop() if owners else None


def _as_pinned(found: MemorisedFact) -> MemorisedFact:
    """A fact as it was pinned, if it was."""
    beyond = found.payload.pop(AS_PINNED, None)
    if beyond is None:
        return found
    if not beyond.pop("named"):
        del found.payload["id"]
    return found.model_copy(update=beyond)


def _conflict(fault: ClientError, delta: AnyDelta) -> Exception | None:
    """The protocol's error for a refusal, if it has one."""
    answer = cast("dict[str, Any]", fault.answer) if isinstance(fault.answer, dict) else {}
    detail: Any = answer.get("detail")
    if fault.code == "fact_conflict":
        return FactConflictError(detail["reason"], detail["message"], detail["delta_id"])
    if fault.status == 422:
        return ConsolidationRuleError(delta.rule_id, delta.kind, str(fault))
    return None
