"""Unreadable facts show in no answer to a write, and in no read of a key that has readable facts
too."""

import json
import re
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from tests.worlds.buried_worlds import ALL_OF_IT, BURIED, BURIED_NAMES, reads_afterwards, two_graves
from tests.worlds.live import fact
from tests.worlds.mixed_worlds import (
    MINGLED,
    SCOPE,
    Flagged,
    Lowered,
    Mixed,
    Mute,
    Prefixed,
    Scoped,
    histories,
    two_mixed,
)
from tests.worlds.private_questions import FORK, Ask, answers, lists, reads, same
from tests.worlds.private_steps import ENTITIES, OUTSIDER, RELATIONS, USERS, Step
from tests.worlds.private_worlds import Life

FEW = settings(
    max_examples=2,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example costs seconds
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
KINDS = [Mixed, Lowered, Flagged, Prefixed, Scoped, Mute]


def bodies(life: Life, names: list[str]) -> list[dict[str, Any]]:
    """Assertions with just the content of facts."""
    reader = life.node.reader
    slots = [slot for name in names if (slot := reader.slot_of(name)) is not None]
    rows = reader.rows(reader.pin().from_position[slots].tolist())
    return [
        {
            "entity": row.entity,
            "relation": row.relation,
            "source": row.source,
            "scope": row.scope,
            "value": {"type": row.value_type, "v": row.value_v},
        }
        for row in rows
        if row.value_type != "number"
    ]


def notices(told: Mixed, *limits: int) -> Iterator[Ask]:
    """A subscriber's events, in pages of any length."""
    for name in told.subscriptions:
        yield Ask("GET", f"/v1/subscriptions/{name}")
        path = f"/v1/subscriptions/{name}/events"
        for limit in (*limits, 500):
            cursor: str | None = None
            for _ in range(40):
                params = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
                yield Ask("GET", path, params)
                answer = told.live.call("GET", path, key=told.key, params=params)
                cursor = answer.json()["cursor"] if answer.status_code == 200 else None
                if cursor is None:
                    break


def repeated(told: Life, _: str) -> Iterator[Ask]:
    """Earlier statements of any source: stated again, with another value, denied, derived."""
    hidden = bodies(told, [name for name, _ in told.hidden[:4]])
    for number, body in enumerate(hidden):
        yield Ask("POST", "/v1/facts", body=body, headers={"Idempotency-Key": f"again-{number}"})
        yield Ask("POST", "/v1/facts", body=body, headers={"Idempotency-Key": f"again-{number}"})
        yield Ask("POST", "/v1/facts", body={**body, "source": OUTSIDER})
        yield Ask("PUT", "/v1/facts", body={**body, "attributes": {"topic": "x"}})
        other = {"type": "string", "v": f"something else {number}"}
        yield Ask("POST", "/v1/facts", body={**body, "value": other})
        yield Ask("POST", "/v1/facts/batch", body=[body, {**body, "value": other}])
    parents = [{"hash": cid.removeprefix("sha256:")} for _, cid in told.hidden[:8]]
    for body in bodies(told, [name for name, _ in told.open[:4]]):
        yield Ask("POST", "/v1/facts", body={**body, "derived_from": parents})
        yield Ask("POST", "/v1/facts", body=body)
    for body in hidden:
        yield Ask("POST", "/v1/facts", body={**body, "confidence": 0.0})
        ended = {"type": "string", "v": "retracted"}
        yield Ask("POST", "/v1/facts", body={**body, "value": ended, "confidence": 0.0})


def touched(told: Life, _: str) -> Iterator[Ask]:
    """Requests with a fact's id: an unreadable one, and an unknown one."""
    for name, cid in told.hidden[:4]:
        again = {"Idempotency-Key": f"end {name}"}
        yield Ask("POST", "/v1/facts/batch", body=[{"op": "retract", "id": name}])
        yield Ask("POST", f"/v1/facts/{name}/retract", body={}, headers=again)
        yield Ask("POST", f"/v1/facts/{name}/retract", body={}, headers=again)
        yield Ask("PATCH", f"/v1/facts/{name}/attributes", body={"topic": "mine"}, headers=again)
        yield Ask("POST", f"/v1/facts/{name}/verify-cid")
        yield Ask("POST", f"/v1/facts/{cid}/verify-cid")
        yield Ask("POST", f"/v1/quarantine/{name}/admit")
        yield Ask("POST", f"/v1/quarantine/{name}/reject")
        yield Ask("POST", "/v1/recall/feedback", body={"cited": [name]})
        yield Ask("POST", "/v1/recall/feedback", body={"rejected": [name], "cited": []})
        gone = {"op": "retract", "id": name}
        yield Ask("POST", FORK, body={"suppose": [gone], "state": {}})


def memories(told: Life, scope: str) -> Iterator[Ask]:
    """Deltas and episodes at the same names."""
    origin: dict[str, Any] = {
        "source_episode_ids": ["ep-0"],
        "promotion_ts": "2026-01-01T00:00:00Z",
        "rule_id": "by-hand",
        "confidence": 1.0,
    }
    place = {"user": USERS[0], "agent": "rag", "scope": scope, "source": OUTSIDER}
    for n, (name, _) in enumerate((*told.hidden[:2], *told.open[:1])):
        payload = {"subject": ENTITIES[n], "predicate": RELATIONS[0], "object": "chief of tea"}
        add = {"kind": "add", "fact_payload": payload, **origin}
        gone = {"kind": "delete", "replaces": [name], **origin}
        for delta in (add, gone):
            for strict in (True, False):
                more = {"strict": strict, "single_valued": ["*"]}
                yield Ask("POST", "/v1/deltas", body={**place, "deltas": [delta], **more})
    body = {"session": "s", "agent": "rag", "content": "tea", "user": USERS[0], "id": "mine"}
    for text in ("tea", "tea", "not tea"):
        stamp = {"timestamp": "2026-01-01T00:00:00Z", "scope": scope, "content": text}
        yield Ask("POST", "/v1/episodes", body={**body, **stamp})
    yield Ask("GET", "/v1/deltas", {"status": "rejected"})


def disputes(told: Life, scope: str) -> Iterator[Ask]:
    """Settle every dispute in turn, including those that the caller cannot see."""
    with told.node.reader.pool.connection() as db:
        rows = db.execute("SELECT conflict_id FROM conflicts ORDER BY conflict_id")
        known = [str(row[0]) for row in rows]
    winners = [name for name, _ in (*told.hidden[:2], *told.open[:2])]
    shown = answers(told, Ask("GET", "/v1/conflicts", {"status": "unresolved"}))
    for each in json.loads(shown[2]).get("conflicts", []) if shown[0] == 200 else []:
        known = [each["conflict_id"], *(one for one in known if one != each["conflict_id"])]
        winners = [each["fact_b"]["id"], *winners]
    said = {"op": "assert", **fact(entity=ENTITIES[0], relation=RELATIONS[0], scope=scope)}
    for conflict in known[:6]:
        path = f"/v1/conflicts/{conflict}/resolve"
        settled = {"op": "resolve", "conflict_id": conflict, "winning_fact_id": winners[0]}
        yield Ask("POST", FORK, body={"suppose": [said, settled], "state": {}})
        for winner in winners[:4]:
            yield Ask("POST", path, body={"winning_fact_id": winner})
        yield Ask("GET", "/v1/conflicts")
        new = {"new_value": {"type": "string", "v": "the last word"}, "resolution_note": "so"}
        yield Ask("POST", path, body=new, headers={"Idempotency-Key": conflict[-20:]})
        yield Ask("POST", path, body=new, headers={"Idempotency-Key": conflict[-20:]})
        yield Ask("GET", "/v1/conflicts", {"status": "resolved"})


def sweeping(_: Life, scope: str) -> Iterator[Ask]:
    """Requests that act on many facts at once, or answer their number."""
    for more in ({"ttl_seconds": 0}, {"min_confidence": 0.95}, {}):
        yield Ask("POST", "/v1/decay/sweep", body={"dry_run": True, "scope": scope, **more})
        yield Ask("POST", "/v1/decay/sweep", {"dry_run": "true"}, body={"scope": scope, **more})
    yield Ask("POST", "/v1/lint", body={"scope": scope})
    summary = [{"name": "daily/daily_2026-06-15.md", "text": "chief of tea"}]
    yield Ask("POST", "/v1/summaries", body={"summaries": summary, "scope": scope})
    yield Ask("PUT", "/v1/relations/set-valued", body={"relations": [RELATIONS[0]]})
    yield Ask("GET", "/v1/conflicts")
    yield Ask("PUT", "/v1/relations/set-valued", body={"relations": []})
    yield Ask("GET", "/v1/conflicts")
    yield Ask("POST", "/v1/decay/sweep", body={"scope": scope, "ttl_seconds": 3600})


def writes(told: Life, scope: str = SCOPE) -> Iterator[Ask]:
    """Every kind of write that meets others' facts, and its results."""
    for some in (touched, disputes, repeated, memories, sweeping):
        yield from some(told, scope)
    yield from lists({})


@given(histories)
@FEW
def test_classified_facts_show_in_no_answer(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path, two_mixed(Path(path), history) as (told, untold):
        note(f"{len(told.open)} open, {len(told.hidden)} classified")
        for ask in chain(reads(told), writes(told)):
            same(told, untold, ask)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_facts_show_nowhere(kind: type[Mixed], tmp_path: Path) -> None:
    with two_mixed(tmp_path, MINGLED, kind) as (told, untold):
        assert len(told.hidden) >= 6
        valid = {answers(life, Ask("GET", "/v1/facts"))[0] for life in (told, untold)}
        assert valid == {403 if kind is Mute else 200}
        for ask in reads(told):
            # One kind covers the past: rights apply to it as to now.
            if kind is Mixed or "as_of" not in {**ask.params, **(ask.body or {})}:
                same(told, untold, ask)
        events = "SELECT * EXCLUDE (hash) FROM events ORDER BY position"
        same(told, untold, Ask("POST", "/v1/time-travel/sql", body={"sql": events}))
        for ask in chain(notices(told, 1), writes(told), notices(told, 7)):
            same(told, untold, ask)


def test_facts_under_tombstones_show_in_no_write(tmp_path: Path) -> None:
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        assert len(told.hidden) >= 6
        asks = chain(writes(told, "company"), said_of_the_buried(), reads_afterwards(told))
        for ask in asks:
            # Counts of recalls are recorded in between, at their own times.
            one, other = answers(told, ask), answers(untold, ask)
            assert _timeless(one) == _timeless(other), ask


def said_of_the_buried() -> Iterator[Ask]:
    """Episodes and deltas about a hidden entity, under names that hidden ones had."""
    stamp = {"timestamp": "2026-01-01T00:00:00Z", "scope": "company"}
    body = {"session": "s", "agent": "rag", "content": "tea", "user": USERS[0], **stamp}
    place = {"user": USERS[0], "agent": "rag", "scope": "company"}
    for name in BURIED_NAMES:
        said = {"id": f"of {name}", "subject": ENTITIES[0], "predicate": "memory:role"}
        origin = {"source_episode_ids": [name], "promotion_ts": stamp["timestamp"]}
        delta = {"kind": "add", "rule_id": "by-hand", "confidence": 1.0, **origin}
        deltas = [{**delta, "fact_payload": {**said, "object": "x"}}]
        yield Ask("POST", "/v1/deltas", body={**place, "deltas": deltas})
        about = {**body, "id": name, "metadata": {"subject": BURIED}}
        for _ in range(2):
            yield Ask("POST", "/v1/episodes", body=about)
        yield Ask("POST", "/v1/episodes", body={**about, "content": "not tea"})
        said = {"id": name, "subject": BURIED, "predicate": "memory:role", "object": "x"}
        origin = {"source_episode_ids": [name], "promotion_ts": stamp["timestamp"]}
        delta = {"fact_payload": said, "rule_id": "by-hand", "confidence": 1.0, **origin}
        for kind in ({"kind": "add"}, {"kind": "update", "replaces": ["hid-1"]}):
            deltas = [{**delta, **kind}]
            yield Ask("POST", "/v1/deltas", body={**place, "deltas": deltas, "strict": False})


def _timeless(answer: tuple[int, dict[str, str], Any]) -> tuple[int, str]:
    return answer[0], re.sub(r'"(hlc|position)":("[^"]*"|[0-9]+)', r'"\1":0', answer[2])
