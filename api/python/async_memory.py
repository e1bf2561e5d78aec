"""The verbs of a memory for ``await``. ``memory`` has their blocking versions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from msgspec import convert

from engramlog.api.client.client import ClientError, path_segment
from engramlog.api.client.lives import EVENTS_PAGE, add_page, next_page
from engramlog.api.python.node_requests import NodeRequests, given_fields
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
from engramlog.api.python.values import (
    InstantLike,
    MomentLike,
    PlainValue,
    given_instant,
    given_name,
    given_user,
    moment_text,
    name_text,
    plain_text,
    text_list,
    wire_value,
)

PAGE_FACTS = 500
PAGE_NEIGHBORS = 200
ERASING_SECONDS = 60.0
_EVERY_FACT = ("include_retracted", "include_expired", "include_contradicted", "include_low_trust")


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
            "source": given_user(user),
            "entity": given_name("entity", entity),
            "relation": given_name("relation", relation),
            "token_budget": max_tokens,
            "profile": profile,
        }
        asked = {"query": plain_text("question", question), "scope": scope, "limit": limit}
        body = {**asked, **self._moment, **given_fields(given)}
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
        and set aside facts. Of values that contradict each other this lists the surest: of one
        source's the newest, of several sources' each, marked ``contradicted``."""
        query = {
            "entity": given_name("entity", entity),
            "relation": given_name("relation", relation),
            "source": given_user(user),
            "scope": scope,
            "prefer": "source",
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
            "entity": name_text("entity", entity),
            "depth": depth,
            "relation_filter": given_name("relation", relation),
            "scope": scope,
            **self._moment,
        }
        found, page = await self.requests.items(
            "/v1/graph/neighbors", "neighbors", query, limit, PAGE_NEIGHBORS,
            size_name="page_size", cursor_name="next_cursor",
        )  # fmt: skip
        return LinkedEntities(convert(found, list[LinkedEntity]), page)

    async def card(self, entity: str, *, scope: str | None = None) -> CardOfEntity:
        """The facts of an entity in one scope, in short. Raises ClientError 404 without facts."""
        query = {"scope": scope or self._scope, **self._moment}
        path = f"/v1/cards/{path_segment(name_text('entity', entity))}"
        answer = await self.requests.ask("GET", path, query=query)
        return answer.shaped(CardOfEntity)

    async def history(self, what: str | Fact) -> EntityHistory:
        """The events of an entity's facts, or of one fact, oldest first."""
        if isinstance(what, Fact):
            life = await self._life(f"/v1/time-travel/facts/{path_segment(what.id)}")
            known = {what.id: fact_of(life["fact"]) if life["fact"] else what}
        else:
            entity = name_text("history", what, "an entity or a Fact")
            life = await self._life(f"/v1/time-travel/entities/{path_segment(entity)}")
            known = {fact["id"]: fact_of(fact) for fact in life["stated"]}
        return history_of(life, known.get)

    async def _life(self, path: str) -> dict[str, Any]:
        query = {"limit": EVENTS_PAGE, **_only(self._moment, "as_of")}
        life: dict[str, Any] = await self.requests.ask("GET", path, query=query)
        while (following := next_page(life)) is not None:
            add_page(life, await self.requests.ask("GET", path, query={**query, **following}))
        return life

    def as_of(
        self, moment: MomentLike | None = None, *, valid_at: InstantLike | None = None
    ) -> AsyncMemoryView:
        """The memory as known at a moment; with ``valid_at``, the facts valid at that time.

        Raises ValueError for a datetime without an offset.
        """
        given = {
            "as_of": None if moment is None else moment_text(moment),
            "valid_at": given_instant("valid_at", valid_at),
        }
        return AsyncMemoryView(self.requests, self._scope, given_fields(given))


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
        """Store a text, unless it was just stored. Returns the fact that holds it.

        Args:
            user: the owner; default: the caller.
            about: the entity that it is about; default: the user.
            topic, tags: more words that find it.
        """
        owner = given_user(user) or await self._owner()
        body = {
            "content": plain_text("text", text),
            "source": owner,
            "scope": self._scope,
            "confidence": confidence,
            "entity": given_name("about", about),
            "topic": given_name("topic", topic),
            "tags": text_list("tags", tags),
        }
        answer = await self.requests.ask(
            "POST", "/v1/memories", body=given_fields(body), writes=True
        )
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
        valid_from: InstantLike | None = None,
        valid_until: InstantLike | None = None,
        scope: str | None = None,
    ) -> Fact:
        """State a fact. A ``Ref`` as value links two entities; ``user`` is its source.

        Raises:
            ValueError: a datetime has no offset.
        """
        body = {
            "entity": name_text("entity", entity),
            "relation": name_text("relation", relation),
            "value": wire_value(value),
            "source": given_user(user) or await self._owner(),
            "confidence": confidence,
            "scope": scope or self._scope,
            "valid_from": given_instant("valid_from", valid_from),
            "valid_until": given_instant("valid_until", valid_until),
        }
        answer = await self.requests.ask("POST", "/v1/facts", body=given_fields(body), writes=True)
        return fact_of(answer)

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
            ValueError: none or several of the three are given, an empty name, or an entity for a
                fact.
            ClientError: 404, nothing is known of it; 423, a legal hold forbids it.
        """
        # An empty name is a mistake of the caller: it must not choose what else is erased.
        if [bool(facts), entity is not None, user is not None].count(True) != 1:
            raise ValueError("forget: name facts, or entity, or user")
        for fact in facts:
            if isinstance(fact, str) and ":" in fact and not fact.startswith("sha256:"):
                raise ValueError(f"forget: {fact} is no id of a fact; for its facts: entity=…")
        owner = given_user(user) or given_name("entity", entity)
        what = {"fact_ids": [_id(fact) for fact in facts]} if facts else {"entity": owner}
        body = {**what, "wait": True, "timeout_s": ERASING_SECONDS}
        answer = await self.requests.ask(
            "POST", "/v1/erasures", body=body, waited_seconds=ERASING_SECONDS
        )
        return answer.shaped(ErasedFacts, clean=answer["status"] == "clean")

    async def close(self) -> None:
        """Release the memory. Idempotent."""
        await self.requests.close()

    async def __aenter__(self) -> Self:
        try:
            await self.requests.transport()
        except asyncio.CancelledError:  # no caller leaves what was not entered
            self.requests.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _owner(self) -> str:
        transport = await self.requests.transport()
        if transport.owner is None:
            me = await self.requests.ask("GET", "/v1/me")
            transport.owner = str(me["entity_uri"])
        return transport.owner


def _only(fields: Mapping[str, str], name: str) -> dict[str, str]:
    return {name: fields[name]} if name in fields else {}


def _id(fact: Fact | str) -> str:
    return fact.id if isinstance(fact, Fact) else name_text("fact", fact, "a Fact or its id")
