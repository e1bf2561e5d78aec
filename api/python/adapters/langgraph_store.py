"""LangGraph's long-term store, kept as facts.

An item is one fact: its namespace and key are the entity, its value the text (JSON), and
``valid_from`` the time of the first put. A second put replaces the item; the log keeps both.
"""

# pyright: basic, reportMissingImports=false
# Type checks run without the framework.

import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from engramlog.api.client.client import ClientError
from engramlog.api.python.adapters.shared import awaited_memory, needs
from engramlog.api.python.async_memory import PAGE_FACTS, AsyncMemory
from engramlog.api.python.memory import Memory
from engramlog.api.python.results import Fact, fact_of
from engramlog.api.python.transport import waited

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError as fault:
    raise needs("langgraph", "langgraph") from fault

PREFIX = "langgraph:"
RELATION = "langgraph:item"
ITEMS_MAX = 100_000
OTHERS_MAX = 10_000
RECALLED_MAX = 500
RECALLED_TOKENS = 200_000
CROWD = 50
"""So many facts of a recall that it may have left others out."""
_KEPT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._~")
_WORD = re.compile(r"\w+")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq, "$ne": operator.ne, "$gt": operator.gt, "$gte": operator.ge,
    "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip


class EngramlogStore(BaseStore):
    """``memory``: a ``Memory`` or ``AsyncMemory``. Items do not expire."""

    supports_ttl = False

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        self._memory = awaited_memory(memory)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return waited(self.abatch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See ``BaseStore``. Runs the operations in order."""
        return [await self._done(each) for each in ops]

    async def _done(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            facts = await self._live(_entity(op.namespace, op.key))
            return _item(facts[0]) if facts else None
        if isinstance(op, PutOp):
            return await self._put(op)
        if isinstance(op, SearchOp):
            return await self._search(op)
        return await self._namespaces(op)

    async def _live(self, entity: str | None = None, most: int = ITEMS_MAX) -> list[Fact]:
        """Facts of items, newest first. Puts at the same time leave several for one item, which
        contradict each other: the newest is the item, and the next put ends the others."""
        query = {"entity": entity, "relation": RELATION, "include_contradicted": "true"}
        found, _ = await self._memory.requests.items("/v1/facts", "facts", query, most, PAGE_FACTS)
        return [fact_of(each) for each in found]

    async def _put(self, op: PutOp) -> None:
        entity = _entity(op.namespace, op.key)
        before, made = await self._live(entity), None
        if op.value is not None:
            if not isinstance(op.value, dict):
                raise TypeError(f"value: give a dict, not {type(op.value).__name__}")
            plain = json.loads(json.dumps(op.value))  # keys are texts: mixed ones have no order
            text = json.dumps(plain, ensure_ascii=False, sort_keys=True)
            if [fact.value for fact in before] == [text]:
                return
            first = (before[0].valid_from if before else None) or datetime.now(UTC)
            value = {"type": "text", "v": text}
            made = await self._memory.assert_fact(entity, RELATION, value, valid_from=first)
        try:
            await self._end([fact for fact in before if fact != made], op)
        except ClientError:  # such as facts of another key, which only that one may end
            if made is not None and made not in before:
                await self._memory.retract(made, "put refused")
            raise

    async def _end(self, facts: list[Fact], op: PutOp) -> None:
        """Retract them, the newest last: until then the item stays."""
        for fact in reversed(facts):
            try:
                await self._memory.retract(fact, "put again" if op.value is not None else "deleted")
            except ClientError as fault:
                if fault.code != "fact_already_retracted":  # by another put
                    raise

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        most = op.offset + op.limit
        found = await self._recalled(op, most) if op.query else _asked(await self._live(), op)
        return found[op.offset : most]

    async def _recalled(self, op: SearchOp, most: int) -> list[SearchItem]:
        """Items, best first. A recall is over the whole store and ends after some hundred facts:
        where it may have left out items that the search has room for, the others among the newest
        ``OTHERS_MAX`` follow, without score, by the words that they share with the query."""
        facts = await self._memory.recall(
            str(op.query), relation=RELATION, limit=RECALLED_MAX, max_tokens=RECALLED_TOKENS
        )
        found = _asked(facts, op)
        if len(facts) < CROWD or len(found) >= most:
            return found
        known, words = {fact.entity for fact in facts}, _words(str(op.query))
        others = [fact for fact in await self._live(most=OTHERS_MAX) if fact.entity not in known]
        others.sort(key=lambda fact: len(words & _words(str(fact.value))), reverse=True)
        return found + _asked(others, op)

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        facts = await self._live()
        wanted = op.match_conditions or ()
        named = {_item(fact).namespace for fact in facts}
        kept = {name for name in named if all(_matches(name, each) for each in wanted)}
        if op.max_depth is not None:
            kept = {name[: op.max_depth] for name in kept}
        return sorted(kept)[op.offset : op.offset + op.limit]


def _entity(namespace: tuple[str, ...], key: str) -> str:
    return PREFIX + "/".join(_encoded(part) for part in (*namespace, key))


def _encoded(part: str) -> str:
    """A part in characters that an entity keeps: no capitals, no ``/``."""
    return "".join(chr(byte) if chr(byte) in _KEPT else f"%{byte:02x}" for byte in part.encode())


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _item(fact: Fact) -> SearchItem:
    *namespace, key = (unquote(part) for part in fact.entity.removeprefix(PREFIX).split("/"))
    assert fact.at is not None  # facts from a node have a time
    return SearchItem(
        namespace=tuple(namespace),
        key=key,
        value=json.loads(str(fact.value)),
        created_at=fact.valid_from or fact.at,
        updated_at=fact.at,
        score=fact.score,
    )


def _asked(facts: Sequence[Fact], op: SearchOp) -> list[SearchItem]:
    """The items that a search asks for, in the order of their facts."""
    newest = {fact.entity: fact for fact in sorted(facts, key=operator.attrgetter("at"))}
    found = [_item(fact) for fact in facts if newest[fact.entity] is fact]
    prefix = op.namespace_prefix
    return [
        item
        for item in found
        if item.namespace[: len(prefix)] == prefix and _fits(item.value, op.filter)
    ]


def _fits(value: dict[str, Any], wanted: dict[str, Any] | None) -> bool:
    """Whether a value matches a filter: equal fields, or operators (``$gte``)."""
    for name, condition in (wanted or {}).items():
        field = value.get(name)
        if isinstance(condition, dict) and any(each.startswith("$") for each in condition):
            for sign, bound in condition.items():
                if sign not in _OPERATORS:
                    raise ValueError(f"filter: no operator {sign!r}")
                if field is None and sign not in ("$eq", "$ne"):
                    return False
                if not _OPERATORS[sign](field, bound):
                    return False
        elif field != condition:
            return False
    return True


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(want in ("*", have) for want, have in zip(path, part, strict=False))
