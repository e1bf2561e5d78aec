"""The results of verbs: typed values that print well in consoles, notebooks and prompts. ``record``
is always the node's own answer."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any, TypeVar, overload

from msgspec import Struct, convert, field

from engramlog.api.answers.compact_facts import packed_lines
from engramlog.api.answers.fact_record import ShortFact
from engramlog.api.python.values import PlainValue, instant, plain_value, whole_number

Item = TypeVar("Item")

_ROWS_SHOWN = 20
_SHOWN_CHARACTERS = 500
_UNBOUNDED = 2**31


class Fact(Struct, frozen=True, kw_only=True, eq=False):
    """A fact as known at the requested moment. Facts with equal ids are equal.

    ``at``: its recording time. ``valid_from`` and ``valid_until``: when it is valid in the world.
    ``score``: how well it answers, in a recall.
    """

    id: str
    entity: str
    relation: str
    value: PlainValue
    source: str
    scope: str
    confidence: float
    at: datetime | None
    valid_from: datetime | None
    valid_until: datetime | None
    contradicted: bool
    score: float | None = None
    record: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and other.id == self.id

    def __ne__(self, other: object) -> bool:  # the one of Struct compares identities
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return f"{self.entity} {self.relation}: {_value_text(self.value)}"

    def __repr__(self) -> str:
        score = "" if self.score is None else f", score {self.score:.3f}"
        return f"<Fact {_shown(str(self))} ({_day(self.at)}, {self.source}{score})>"

    def _repr_html_(self) -> str:
        return Facts([self]).html()


class Listing(Sequence[Item]):
    """Items in order, with the node's answer."""

    columns: tuple[str, ...] = ()

    def __init__(self, items: Sequence[Item], record: dict[str, Any] | None = None) -> None:
        self._items = tuple(items)
        self.record = record or {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._items[index]

    def __repr__(self) -> str:
        lines = [f"  {_shown(str(item))}" for item in self._items[:_ROWS_SHOWN]]
        if len(self) > _ROWS_SHOWN:
            lines.append(f"  … and {len(self) - _ROWS_SHOWN} more")
        return "\n".join([f"<{type(self).__name__}: {len(self)}>", *lines])

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """The items as a table for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = (map(_shown, self.cells(item)) for item in self._items)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def cells(self, item: Item) -> list[str]:
        """An item as a row of a table."""
        return [str(item)]


class Facts(Listing[Fact]):
    """Facts, in the order of the answer."""

    columns = ("entity", "relation", "value", "recorded", "source")

    def cells(self, item: Fact) -> list[str]:
        return [item.entity, item.relation, _value_text(item.value), _day(item.at), item.source]

    def text(self, max_tokens: int | None = None) -> str:
        """The facts for a prompt, one per line, best first; empty without facts. ``max_tokens``:
        limit; omits facts that do not fit. The first line tells the model that the others are
        data."""
        if not self:
            return ""
        budget = _UNBOUNDED if max_tokens is None else whole_number("max_tokens", max_tokens)
        return packed_lines(convert([fact.record for fact in self], list[ShortFact]), budget).text


class RecalledFacts(Facts):
    """The answer to a question, best first. ``hint``: a scope with a better answer.
    ``weak_evidence``: the memory may not know; None without embeddings."""

    columns = (*Facts.columns, "score")

    def cells(self, item: Fact) -> list[str]:
        return [*super().cells(item), f"{item.score:.3f}"]

    @property
    def receipt_id(self) -> str:
        """Identifies the recall, for replays and feedback."""
        return str(self.record["recall_id"])

    @property
    def weak_evidence(self) -> bool | None:
        return self.record["weak_evidence"]

    @property
    def hint(self) -> str | None:
        hint: Any = self.record.get("hint")
        return None if hint is None else str(hint.get("message", hint))


class LinkedEntity(Struct, frozen=True, kw_only=True):
    """An entity near another in the graph: ``relation`` of the last edge, ``hops`` away along
    ``path``."""

    entity: str
    relation: str
    hops: int
    confidence: float
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' → '.join(self.path)} —[{self.relation}]→ {self.entity}"


class LinkedEntities(Listing[LinkedEntity]):
    """Neighbours, nearest first."""

    columns = ("entity", "relation", "hops", "confidence", "path")

    def cells(self, item: LinkedEntity) -> list[str]:
        path = " → ".join(item.path)
        return [item.entity, item.relation, str(item.hops), f"{item.confidence:.2f}", path]


class CardOfEntity(Struct, frozen=True, kw_only=True):
    """The facts of an entity in one scope, in short. ``markdown`` is the longer form."""

    entity: str = field(name="entity_uri")
    scope: str
    summary: str
    markdown: str
    facts: int
    record: dict[str, Any]

    def text(self) -> str:
        """The card for a prompt."""
        return self.summary

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<CardOfEntity {self.entity}: {self.facts} facts>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary)}</pre>"


class HistoryEvent(Struct, frozen=True, kw_only=True):
    """An event: its ``kind``, when this node received it (``at``), its actor, and its facts in
    their present state."""

    kind: str
    at: datetime | None
    actor: str
    position: int
    facts: tuple[Fact, ...]
    reason: str | None
    record: dict[str, Any]

    def __str__(self) -> str:
        what = "; ".join(str(fact) for fact in self.facts)
        why = f" ({self.reason})" if self.reason else ""
        return f"{_day(self.at)} {self.kind} {what}{why}, by {self.actor}"

    def __repr__(self) -> str:
        return f"<HistoryEvent {_shown(str(self))}>"


class EntityHistory(Listing[HistoryEvent]):
    """Events, oldest first."""

    columns = ("at", "kind", "facts", "by", "reason")

    def cells(self, item: HistoryEvent) -> list[str]:
        facts = "; ".join(str(fact) for fact in item.facts)
        return [_day(item.at), item.kind, facts, item.actor, item.reason or ""]


class ErasedFacts(Struct, frozen=True, kw_only=True):
    """Erased facts. ``clean``: no file contains them, and ``receipt`` is signed; otherwise the node
    is still cleaning."""

    erasure_id: str
    facts: int
    clean: bool
    receipt: dict[str, Any] | None
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"<ErasedFacts: {self.facts}{', clean' if self.clean else ', still cleaning'}>"


def fact_of(record: dict[str, Any], score: float | None = None) -> Fact:
    """A fact from its wire form."""
    return Fact(
        id=record["id"],
        entity=record["entity"],
        relation=record["relation"],
        value=plain_value(record["value"]),
        source=record["source"],
        scope=record["scope"],
        confidence=record["confidence"],
        at=instant(record["timestamp"]),
        valid_from=instant(record["valid_from"]),
        valid_until=instant(record["valid_until"]),
        contradicted=record["contradicted"],
        score=score,
        record=record,
    )


def recalled_of(answer: dict[str, Any]) -> RecalledFacts:
    found = [fact_of(item["fact"], item["score"]) for item in answer["facts"]]
    return RecalledFacts(found, answer)


def history_of(life: dict[str, Any], fact: Callable[[str], Fact | None]) -> EntityHistory:
    """The events of a life, from their wire form; ``fact`` has the facts that they name."""
    return EntityHistory(
        [
            HistoryEvent(
                kind=event["kind"],
                at=instant(event["received_at"]),
                actor=event["actor"],
                position=event["position"],
                facts=tuple(found for name in event["fact_ids"] if (found := fact(name))),
                reason=event["reason"],
                record=event,
            )
            for event in life["events"]
        ],
        life,
    )


def _value_text(value: PlainValue) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _shown(text: str) -> str:
    """For a console or notebook: a value may have 256 KiB. ``value`` and ``record`` have it all."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _day(at: datetime | None) -> str:
    return "" if at is None else at.date().isoformat()
