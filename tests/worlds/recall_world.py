"""A tiny world of facts in a real memory image, for tests of its readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engramlog.eventlog.event import Header, Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    FactAsserted,
    FactAttributes,
    FactDenied,
    FactErased,
    FactRetracted,
    Parent,
    Payload,
    RecallServed,
    RecallUse,
    SourceTrustSet,
    Value,
    kind_of,
)
from engramlog.projections.authorization import Authorization
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.recall.conversation.channels import speaker_name, speakers
from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, Survey, survey
from engramlog.projections.tables.facts.fact_rows import FactRow

DAY_US = 86_400_000_000
NOW_US = 1_800_000_000_000_000
SOURCE = "agent:tester"


def user(name: str) -> str:
    """A formal entity URI; search sees ``user`` and the name."""
    return f"stigmem://x.example/user/{name}"


def reader(*scopes: str) -> Authorization:
    """A caller who may read these scopes (default ``company``)."""
    return Authorization("agent:reader", frozenset({"read"}), frozenset(scopes or ("company",)))


def survey_of(
    world: World,
    query: str,
    *scopes: str,
    moment: Moment | None = None,
    context: ConversationContext | None = None,
    semantics: Semantics | None = None,
) -> Survey:
    """The facts of a question, of any confidence."""
    return survey(
        world.view(),
        RecallRequest(query=query),
        reader(*scopes),
        moment or world.moment(),
        gate=Gate(effective_min=0.0, contradicted=True),
        depth=1,
        context=context,
        semantics=semantics,
    )


def speaker_names(survey: Survey, slots: Iterable[int]) -> list[str]:
    """Who said each fact."""
    by = speakers(survey, np.array(list(slots), dtype=np.int32))
    return [speaker_name(survey, each) for each in by.tolist()]


class World:
    """Facts by order of writing; ``fact`` returns the slot."""

    def __init__(self) -> None:
        self.image = MemoryImage()
        self.position = 0
        self._rows: dict[int, FactRow] = {}
        self._ids: list[str] = []

    def fact(
        self,
        entity: str,
        relation: str,
        value: str,
        *,
        kind: str = "text",
        scope: str = "company",
        confidence: float = 1.0,
        source: str = SOURCE,
        age_days: float = 0.0,
        name: str | None = None,
        cid: str = "",
        parents: Sequence[str] = (),
        valid_from: str | None = None,
        valid_until: str | None = None,
        attributes: FactAttributes | None = None,
    ) -> int:
        """Assert a fact. ``parents``: 64 hex digits for each fact it was derived from."""
        slot = len(self._ids)
        fact_id = name or f"fact-{slot}"
        payload = FactAsserted(
            id=fact_id,
            entity=entity,
            relation=relation,
            value=Value(type=kind, v=value),  # pyright: ignore[reportArgumentType]
            source=source,
            scope=scope,  # pyright: ignore[reportArgumentType]
            confidence=confidence,
            cid=cid or f"sha256:{slot:064x}",
            valid_from=valid_from,
            valid_until=valid_until,
            derived_from=[Parent(hash=parent) for parent in parents],
            attributes=attributes,
        )
        recorded_at = NOW_US - int(age_days * DAY_US)
        self._append(payload, recorded_at)
        self._ids.append(fact_id)
        self._rows[self.position] = FactRow(
            self.position, fact_id, entity, relation, kind, value, "content", source, scope,
            None, confidence, None, None, recorded_at, recorded_at, payload.cid,
            "[" + ",".join(f'{{"hash":"{parent}"}}' for parent in parents) + "]",
            "assert", "agent:tester", "stigmem:node:test", None,
        )  # fmt: skip
        return slot

    def ref(
        self, entity: str, relation: str, target: str, **more: float | str | FactAttributes
    ) -> int:
        """Assert an edge."""
        return self.fact(entity, relation, target, kind="ref", **more)  # pyright: ignore[reportArgumentType]

    def retract(self, slot: int) -> None:
        self._append(FactRetracted(fact_ids=[self._ids[slot]]), NOW_US)

    def erase(self, slot: int) -> None:
        self._append(FactErased("erasure", events=[], fact_ids=[self._ids[slot]]), NOW_US)

    @property
    def facts(self) -> int:
        """How many facts there are, records of confidence 0 included."""
        return len(self._ids)

    def deny(self, record: int, numbers: Iterable[int]) -> None:
        """A record of confidence 0 denies these facts, also ones still to come."""
        named = [f"fact-{number}" for number in numbers]
        self._append(FactDenied(fact_ids=named, marker_id=self._ids[record]), NOW_US)

    def set_aside(self, slot: int) -> None:
        """A fact loses a settled conflict."""
        lost = [self._ids[slot]]
        self._append(ConflictResolved("conflict", "winner", lost, "note"), NOW_US)

    def trust(self, source: str, trust: float) -> None:
        self._append(SourceTrustSet(source=source, trust=trust), NOW_US)

    def accessed(self, slot: int, count: int) -> None:
        use = RecallUse(self._ids[slot], count, NOW_US)
        self._append(RecallServed(uses=[use]), NOW_US)

    def view(self) -> View:
        return View(self.image)

    def moment(self) -> Moment:
        return Moment(self.position, NOW_US)

    def rows(self, positions: Sequence[int]) -> list[FactRow]:
        return [self._rows[position] for position in positions if position in self._rows]

    def slots_of_cid(self, cid: str) -> list[int]:
        return [slot for slot, row in enumerate(self._rows.values()) if row.cid == cid]

    def _append(self, payload: Payload, recorded_at: int) -> None:
        self.position += 1
        header = Header(
            1, self.position.to_bytes(16), "stigmem:node:test", "stream", self.position,
            kind_of(payload), 1, recorded_at + self.position, recorded_at, "agent:tester",
            None, None, b"", b"",
        )  # fmt: skip
        event = Recorded(self.position, NOW_US, 0, None, header, b"", payload)
        self.image.apply([event], self.position)
