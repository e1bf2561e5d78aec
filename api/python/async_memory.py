"""The verbs of a memory for ``await``. ``memory`` has their blocking versions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

import msgspec
from msgspec import convert

from engramlog.api.client.client import (
    ClientError,
    failure_of,
    json_of,
    path_segment,
    query_text,
)
from engramlog.api.python.connecting import reach
from engramlog.api.python.results import (
    CardOfEntity,
    EntityHistory,
    ErasedFacts,
    Fact,
    Facts,
    LinkedEntities,
    LinkedEntity,
    RecalledFacts,
    fact_of,
    history_of,
    recalled_of,
)
from engramlog.api.python.transport import Transport, begun
from engramlog.api.python.values import (
    MomentLike,
    PlainValue,
    instant_text,
    moment_text,
    named_user,
    wire_value,
)

PAGE_FACTS = 500
PAGE_NEIGHBORS = 200
EVENTS_MAX = 1_000
ERASING_SECONDS = 60.0
_EVERY_FACT = ("include_retracted", "include_expired", "include_contradicted", "include_low_trust")


class NodeRequests:
    """Requests to a node; the first one connects."""

    def __init__(self, place: str | os.PathLike[str], key: str | None) -> None:
        self.place = os.fspath(place)
        self._key = key
        self._transport: Transport | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False
        self._process = os.getpid()

    async def transport(self) -> Transport:
        """The way to the node. Raises the errors of ``reach``; ClientError in a forked child."""
        if self._process != os.getpid():
            raise ClientError("this memory belongs to the process that forked: open one here")
        return await asyncio.wrap_future(begun(self._reached()))

    async def _reached(self) -> Transport:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._closed:
                raise ClientError("this memory is closed")
            if self._transport is None:
                self._transport = await reach(self.place, self._key)
            return self._transport

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        writes: bool = False,
        accept: Sequence[int] = (),
    ) -> dict[str, Any]:
        """One request and its JSON. Raises ClientError.

        Args:
            writes: send an idempotency key.
            accept: statuses over 400 to return as answers.
        """
        transport = await self.transport()
        target = path + query_text(_given(query or {}))
        content, headers = None, {"Accept": "application/json"}
        if body is not None:
            content = json_of(body)
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        if writes:
            headers["Idempotency-Key"] = str(uuid4())
        answer = await asyncio.wrap_future(
            begun(transport.exchange(method, target, content, headers))
        )
        try:
            decoded: Any = msgspec.json.decode(answer.body) if answer.body else {}
        except msgspec.DecodeError as fault:
            raise ClientError(
                f"{transport.place}{path} did not answer with JSON", answer.status
            ) from fault
        if answer.status >= 400 and answer.status not in accept:
            raise failure_of(answer.status, decoded)
        return decoded

    async def items(
        self, path: str, name: str, query: Mapping[str, object], most: int, page_max: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Up to ``most`` items of a list with pages of at most ``page_max``, and the last page;
        ``name``: of the items in a page. Raises ClientError."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            size = min(page_max, max(1, most - len(found)))
            page = await self.ask("GET", path, query={**query, "limit": size, "cursor": cursor})
            found += page[name]
            cursor = page["cursor"]
            if cursor is None or len(found) >= most:
                return found[:most], page

    async def close(self) -> None:
        """Release the node. Idempotent."""
        self._closed = True
        if self._process != os.getpid():
            return  # the process that opened it still uses it
        transport, self._transport = self._transport, None
        if transport is not None:
            await asyncio.wrap_future(begun(transport.close()))


class AsyncMemoryView:
    """The verbs that read, at one moment: now, or an earlier one (``as_of``).

    Every verb raises ClientError if the node refuses or is not reachable.
    """

    def __init__(self, requests: NodeRequests, scope: str, moment: Mapping[str, str]) -> None:
        self.requests = requests
        self._scope = scope
        self._moment = moment

    def __repr__(self) -> str:
        when = "".join(f", {name} {text}" for name, text in self._moment.items())
        return f"<{type(self).__name__} {self.requests.place}{when}>"

    async def recall(
        self,
        question: str,
        *,
        user: str | None = None,
        entity: str | None = None,
        relation: str | None = None,
        scope: str = "*",
        limit: int = 10,
        max_tokens: int | None = None,
        profile: str | None = None,
    ) -> RecalledFacts:
        """The facts that answer a question best.

        Args:
            user: only facts of this user.
            entity, relation: only facts about this.
            scope: where to look; ``*`` is every readable scope.
            max_tokens: most tokens of the facts, by the profile's estimator.
        """
        given = {
            "source": None if user is None else named_user(user),
            "entity": entity,
            "relation": relation,
            "token_budget": max_tokens,
            "profile": profile,
        }
        body = {"query": question, "scope": scope, "limit": limit, **self._moment, **_given(given)}
        return recalled_of(await self.requests.ask("POST", "/v1/recall", body=body))

    async def facts(
        self,
        entity: str | None = None,
        relation: str | None = None,
        *,
        user: str | None = None,
        scope: str | None = None,
        limit: int = 100,
        ended: bool = False,
    ) -> Facts:
        """Facts, newest first. ``user``: only this source's; ``ended``: also retracted, expired
        and set aside facts."""
        query = {
            "entity": entity,
            "relation": relation,
            "source": None if user is None else named_user(user),
            "scope": scope,
            **self._moment,
            **(dict.fromkeys(_EVERY_FACT, "true") if ended else {}),
        }
        found, page = await self.requests.items("/v1/facts", "facts", query, limit, PAGE_FACTS)
        return Facts([fact_of(each) for each in found], page)

    async def neighbors(
        self,
        entity: str,
        *,
        depth: int = 1,
        relation: str | None = None,
        scope: str = "*",
        limit: int = 50,
    ) -> LinkedEntities:
        """Entities up to ``depth`` (at most 3) edges away; ``relation``: only along these."""
        query = {
            "entity": entity,
            "depth": depth,
            "relation_filter": relation,
            "scope": scope,
            "page_size": min(limit, PAGE_NEIGHBORS),
            **self._moment,
        }
        answer = await self.requests.ask("GET", "/v1/graph/neighbors", query=query)
        return LinkedEntities(convert(answer["neighbors"], list[LinkedEntity]), answer)

    async def card(self, entity: str, *, scope: str | None = None) -> CardOfEntity:
        """The facts of an entity in one scope, in short. Raises ClientError 404 without facts."""
        query = {"scope": scope or self._scope, **self._moment}
        answer = await self.requests.ask("GET", f"/v1/cards/{path_segment(entity)}", query=query)
        return convert({**answer, "record": answer}, CardOfEntity)

    async def history(self, what: str | Fact) -> EntityHistory:
        """The events of an entity's facts, or of one fact, oldest first."""
        query = {"limit": EVENTS_MAX, **_only(self._moment, "as_of")}
        if isinstance(what, Fact):
            path = f"/v1/time-travel/facts/{path_segment(what.id)}"
            life = await self.requests.ask("GET", path, query=_only(self._moment, "as_of"))
            known = {what.id: fact_of(life["fact"]) if life["fact"] else what}
        else:
            path = f"/v1/time-travel/entities/{path_segment(what)}"
            life = await self.requests.ask("GET", path, query=query)
            facts = await self.facts(what, ended=True, limit=EVENTS_MAX)
            known = {fact.id: fact for fact in facts}
        return history_of(life["events"], known.get)

    def as_of(
        self, moment: MomentLike | None = None, *, valid_at: datetime | str | None = None
    ) -> AsyncMemoryView:
        """The memory as known at a moment; with ``valid_at``, the facts valid at that time.

        Raises ValueError for a datetime without an offset.
        """
        given = {
            "as_of": None if moment is None else moment_text(moment),
            "valid_at": None if valid_at is None else instant_text("valid_at", valid_at),
        }
        return AsyncMemoryView(self.requests, self._scope, _given(given))


class AsyncMemory(AsyncMemoryView):
    """A memory: a data directory, or a node by URL and key.

    If a node serves the directory, this uses that node; otherwise it opens the directory in this
    process, without a server. Close it when done, or use ``async with``.
    """

    def __init__(
        self, place: str | os.PathLike[str], *, key: str | None = None, scope: str = "local"
    ) -> None:
        """
        Args: place: a directory (created if missing), or an ``http(s)://`` URL.
            key: the API key, for a URL.
            scope: of new facts: ``local``, ``team``, ``company`` or ``public``.
        """
        super().__init__(NodeRequests(place, key), scope, {})

    async def remember(
        self,
        text: str,
        *,
        user: str | None = None,
        about: str | None = None,
        topic: str | None = None,
        tags: Sequence[str] = (),
        confidence: float = 1.0,
    ) -> Fact:
        """Store a text, without duplicates. Returns the fact that holds it.

        Args:
            user: the owner; default: the caller.
            about: the entity that it is about; default: the user.
            topic, tags: more words that find it.
        """
        owner = named_user(user) if user is not None else await self._owner()
        body = {
            "content": text,
            "source": owner,
            "scope": self._scope,
            "confidence": confidence,
            **_given({"entity": about, "topic": topic, "tags": list(tags) or None}),
        }
        answer = await self.requests.ask("POST", "/v1/memories", body=body, writes=True)
        if not answer["stored"]:
            raise ClientError(f"not stored: {answer['error']}", 422, "not_stored", answer)
        if "fact" in answer:
            return fact_of(answer["fact"])
        return fact_of(await self.requests.ask("GET", f"/v1/facts/{path_segment(answer['id'])}"))

    async def assert_fact(
        self,
        entity: str,
        relation: str,
        value: PlainValue | Mapping[str, Any],
        *,
        user: str | None = None,
        confidence: float = 1.0,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        scope: str | None = None,
    ) -> Fact:
        """State a fact. A ``Ref`` as value links two entities; ``user`` is its source.

        Raises:
            ValueError: a datetime has no offset.
        """
        times = {"valid_from": valid_from, "valid_until": valid_until}
        body = {
            "entity": entity,
            "relation": relation,
            "value": wire_value(value),
            "source": named_user(user) if user is not None else await self._owner(),
            "confidence": confidence,
            "scope": scope or self._scope,
            **{name: instant_text(name, given) for name, given in times.items() if given},
        }
        return fact_of(await self.requests.ask("POST", "/v1/facts", body=body, writes=True))

    async def retract(self, fact: Fact | str, reason: str = "") -> Fact:
        """End a fact; its history remains."""
        path = f"/v1/facts/{path_segment(_id(fact))}/retract"
        answer = await self.requests.ask("POST", path, body={"reason": reason}, writes=True)
        return fact_of(answer["fact"])

    async def forget(
        self, *facts: Fact | str, entity: str | None = None, user: str | None = None
    ) -> ErasedFacts:
        """Erase facts from the log and from every file: the given ones, or all of an entity or a
        user. Needs the permission ``admin``; opened directories have it.

        Raises:
            ValueError: none or several of the three are given.
        """
        # An empty name is a mistake of the caller: it must not choose what else is erased.
        if [bool(facts), entity is not None, user is not None].count(True) != 1 or user == "":
            raise ValueError("forget: name facts, or entity, or user")
        owner = entity if user is None else named_user(user)
        what = {"fact_ids": [_id(fact) for fact in facts]} if facts else {"entity": owner}
        body = {**what, "wait": True, "timeout_s": ERASING_SECONDS}
        answer = await self.requests.ask("POST", "/v1/erasures", body=body)
        clean = answer["status"] == "clean"
        return convert({**answer, "clean": clean, "record": answer}, ErasedFacts)

    async def close(self) -> None:
        """Release the memory. Idempotent."""
        await self.requests.close()

    async def __aenter__(self) -> Self:
        await self.requests.transport()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _owner(self) -> str:
        transport = await self.requests.transport()
        if transport.owner is None:
            me = await self.requests.ask("GET", "/v1/me")
            transport.owner = str(me["entity_uri"])
        return transport.owner


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _only(fields: Mapping[str, str], name: str) -> dict[str, str]:
    return {name: fields[name]} if name in fields else {}


def _id(fact: Fact | str) -> str:
    return fact.id if isinstance(fact, Fact) else fact
