"""The console's work does not grow with the memory: answers keep their size, and read as few facts
and events as in a small one. ``python -m benchmarks console`` measures a million facts."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engramlog.projections.image.fact_texts import PieceOfFacts
from tests.worlds.live import LiveNode, fact

Serve = Callable[..., LiveNode]
HUB = "stigmem://t.example/team/everyone"
FEW, MANY = 700, 2_800
BYTES_MORE = 1.05
"""Longer numbers and names."""

Read = dict[str, int]


def grow(live: LiveNode, start: int, end: int) -> None:
    """Facts about many entities, each fifth about one hub, each seventh a ref to it; and every
    fiftieth contradicts another."""
    items: list[dict[str, Any]] = []
    for n in range(start, end):
        entity = HUB if n % 5 == 0 else f"stigmem://t.example/item/ledger-{n:06d}"
        if n % 7 == 0 and entity != HUB:
            items.append(fact(entity=entity, relation="rel:of", type="ref", v=HUB))
            continue
        text = f"the ledger says {n:06d} of the quarterly plan"
        items.append(fact(entity=entity, relation=f"memory:r{n:06d}", v=text, source="agent:a"))
        if n % 50 == 1:
            items.append({**items[-1], "value": {"type": "string", "v": "no"}, "source": "agent:b"})
    for at in range(0, len(items), 500):
        answer = live.call("POST", "/v1/facts/batch", json=items[at : at + 500])
        assert all(each["status"] < 400 for each in answer.json()["results"])


def asks(head: int) -> Sequence[tuple[str, dict[str, Any]]]:
    """The requests behind the views, at the head of the log and half way back."""
    everything = {"include_contradicted": True}
    past = {"as_of": f"position:{head // 2}"}
    return [
        ("/v1/facts", {**everything, "limit": 100}),
        ("/v1/facts", {**everything, "limit": 100, **past}),
        ("/v1/facts", {**everything, "entity": HUB, "limit": 100}),
        ("/v1/conflicts", {"status": "unresolved", "limit": 5}),
        ("/v1/conflicts", {"status": "resolved", "limit": 5}),
        *(("/v1/search", {"q": q, "limit": 12}) for q in ("l", "ledger", "ledger plan", "000007")),
        ("/v1/log", {"limit": 100}),
        ("/v1/log", {"limit": 100, "before": head // 2}),
        ("/v1/log", {"limit": 50, "entity": HUB}),
        ("/v1/log", {"limit": 100, "kind": "fact_retracted"}),
        (f"/v1/log/{head // 2}", {}),
        ("/v1/time-travel/timeline", {"buckets": 200}),
        ("/v1/time-travel/diff", {"from": f"position:{head - 1}", "to": f"position:{head}"}),
        ("/v1/time-travel/diff", {"from": "position:1", "to": f"position:{head}", "limit": 50}),
        ("/v1/graph/neighbors", {"entity": HUB, "scope": "company", "page_size": 60}),
        ("/v1/recall/receipts", {"limit": 20}),
    ]


def read_for(live: LiveNode, read: Read) -> list[tuple[str, int, Read]]:
    """Bytes of each answer, and the reads behind it."""
    found: list[tuple[str, int, Read]] = []
    head = live.node.log.head().position
    for path, params in asks(head):
        read.update(events=0, rows=0, looked=0)
        answer = live.call("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        found.append((f"{path} {params}", len(answer.content), dict(read)))
    return found


def test_the_consoles_requests_do_not_grow(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    live = serve()
    grow(live, 0, FEW)
    read: Read = {"events": 0, "rows": 0, "looked": 0}
    log, reader = live.node.log, live.node.reader
    events_of, rows_of, looked_at = log.read, reader.rows, PieceOfFacts.anywhere

    def events(after: int = 0, limit: int = 1000) -> Any:
        got = events_of(after, limit)
        read["events"] += len(got)
        return got

    def rows(positions: Any) -> Any:
        got = rows_of(positions)
        read["rows"] += len(got)
        return got

    def looked(self: PieceOfFacts, slots: Any) -> Any:
        read["looked"] += len(slots)
        return looked_at(self, slots)

    monkeypatch.setattr(log, "read", events)
    monkeypatch.setattr(reader, "rows", rows)
    monkeypatch.setattr(PieceOfFacts, "anywhere", looked)
    monkeypatch.setattr("engramlog.projections.graph.search.FIRST_LOOK", 128)
    monkeypatch.setattr("engramlog.projections.graph.search.COMPARED_MAX", 100)
    before = read_for(live, read)
    grow(live, FEW, MANY)
    for (_, few_bytes, few), (name, many_bytes, many) in zip(
        before, read_for(live, read), strict=True
    ):
        assert many_bytes <= few_bytes * BYTES_MORE + 200, name
        rare = "000007" in name  # looked for in every fact's text, in memory
        for what in ("events", "rows") if rare else ("events", "rows", "looked"):
            assert many[what] <= few[what] * BYTES_MORE + 20, (name, what, few, many)
