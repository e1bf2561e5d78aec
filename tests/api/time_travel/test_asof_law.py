"""The law of time travel, over every read route: a node's answer about position N equals, byte for
byte, that of a node with only events 1 to N of the present log.

Two comparisons: with the node itself while N was its head (``recorded``), and with a second node
that got the beginning of the log (``beginning``), which also holds after an erasure. Exempt are
names and times that an answer generates: receipt ids, cursors, milliseconds, and the question that
a recall repeats.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st
from msgspec import Struct

from engramlog.api.http.openapi import openapi_path
from engramlog.api.routes.table import ROUTES
from engramlog.projections.moment import format_instant
from tests.worlds.busy_life import EVERYTHING
from tests.worlds.live import LiveNode
from tests.worlds.pasts import INTENT, NAME, RULE, Past, beginning, lived, pasts
from tests.worlds.private_steps import (
    ENTITIES,
    MEMBER,
    NAMES,
    RELATIONS,
    SCOPE,
    SOURCES,
    USERS,
    Step,
)
from tests.worlds.provider_servers import serving
from tests.worlds.word_vectors import embedded, settings_for, words_api

PROFILES = ("default", "stargraph", "stigmem")
PAGED = ("/v1/facts", "/v1/time-travel/state", "/v1/conflicts", "/v1/episodes", "/v1/deltas",
         "/v1/audit", "/v1/graph/neighbors", "/v1/trust/sources", "/v1/summaries")  # fmt: skip
MADE_UP = re.compile(
    r'"(recall_id|receipt_id|cursor|next_cursor|error_id)":"[^"]*"|"milliseconds":[0-9.e+-]+'
    r'|"(as_of|receipt_id)":(null|"position:[0-9]+")'
)
"""The last is the question itself, which recalls repeat."""


class Question(Struct, frozen=True):
    """One request without its moment, of one caller: ``who`` is a key of the life."""

    who: str
    method: str
    path: str
    params: dict[str, Any] = {}
    body: dict[str, Any] | None = None
    moment: str = "as_of"
    """The route's parameter for the moment."""


def questions(past: Past) -> Iterator[Question]:
    """Every read route with a moment, about all present facts."""
    named = [name for name, _ in (*past.open, *past.hidden)]
    before = format_instant(past.clock.now_us() - 4 * 3_600_000_000)
    for who in ("key", "member_key"):
        for name in (*named, "00000000-0000-7000-8000-000000000000"):
            for path in ("", "/provenance"):
                yield Question(who, "GET", f"/v1/facts/{name}{path}")
            yield Question(who, "GET", f"/v1/facts/{name}", {"valid_at": before})
            yield Question(who, "GET", f"/v1/time-travel/facts/{name}")
            yield Question(who, "GET", f"/v1/audit/facts/{name}")
        yield from lists(who, before)
        yield from recalls(who)
        yield from wholes(who)
        yield from memories(who)
        swept = {"op": "sweep", "scope": SCOPE, "ttl_seconds": 7_200}
        state = {"include_retracted": True, "limit": 500}
        what_if = {"suppose": [swept], "state": state}
        yield Question(who, "POST", "/v1/time-travel/fork", body=what_if)
        for garden in past.gardens.values():
            inside = {"garden_id": garden}
            yield Question(who, "GET", "/v1/facts", inside)
            yield Question(
                who, "POST", "/v1/recall", body={"query": "tea", "track": False, **inside}
            )
            card = {"scope": SCOPE, "refresh": True, **inside}
            yield Question(who, "GET", f"/v1/cards/{ENTITIES[0]}", card)
    for path in ("/v1/trust/policy", "/v1/trust/sources"):
        yield Question("admin_key", "GET", path)
    yield Question("admin_key", "GET", "/v1/trust/sources", {"limit": 1})
    for source in SOURCES:
        yield Question("admin_key", "GET", "/v1/trust/sources", {"source": source})


def lists(who: str, before: str) -> Iterator[Question]:
    everything = {"include_contradicted": True, "include_expired": True, "include_retracted": True}
    for more in (
        {}, everything, {"entity": ENTITIES[0]}, {"entity": NAME}, {"relation": RELATIONS[1]},
        {"source": MEMBER, **everything}, {"prefer": "hlc"}, {"min_confidence": 0.5},
        {"limit": 2, **everything}, {"tail": True, "limit": 2}, {"valid_at": before},
        {"include_low_trust": True, **everything}, {"attested": False},
        {"relation": "stigmem:memory:card"},
    ):  # fmt: skip
        yield Question(who, "GET", "/v1/facts", more)
    yield Question(who, "GET", "/v1/time-travel/state", everything)
    yield Question(who, "GET", "/v1/time-travel/state", {"limit": 3})
    for start in (1, 4):  # the epoch and the keys come before any step
        since = {"from": f"position:{start}"}
        yield Question(who, "GET", "/v1/time-travel/diff", since, moment="to")
    for status in ("unresolved", "resolved"):
        yield Question(who, "GET", "/v1/conflicts", {"status": status})
    yield Question(who, "GET", "/v1/conflicts", {"limit": 1})
    for more in ({}, {"limit": 3}, {"entity_uri": MEMBER}, {"source": MEMBER}):
        yield Question(who, "GET", "/v1/audit", more)
    yield Question(who, "GET", "/v1/audit/export")
    for more in ({"limit": 3}, {"entity": ENTITIES[0]}, {"kind": "fact_asserted", "limit": 2}):
        yield Question(who, "GET", "/v1/log", more)


def recalls(who: str) -> Iterator[Question]:
    base = {"scope": SCOPE, "explain": True, "min_confidence": 0.0, "track": False}
    for profile in PROFILES:
        for more in (
            {"query": "who keeps the tea and the secrets?", "depth": 2},
            {"query": "atlas ledger", "include_contradicted": False},
            # A cached card may be stale and say so; a forced one may not.
            {"query": "tea", "entity": ENTITIES[0], "force_refresh": True},
            {"query": "secrets", "token_budget": 60, "limit": 2, "include_low_trust": True},
        ):
            yield Question(who, "POST", "/v1/recall", body={**base, **more, "profile": profile})
    named = {"query": "tea a c b", "depth": 2, "profile": "naming"}  # both of abmind's own stages
    yield Question(who, "POST", "/v1/recall", body={**base, **named})
    for words in (["tea"], ["secrets", "keeper"]):  # too common then, or not yet
        common = {"query": "q", "translated": words, "intent": "ambient", "profile": "naming"}
        yield Question(who, "POST", "/v1/recall", body={**base, **common})
    some = {"query": "tea", "token_budget": 500, "scope": "*", "track": False}
    yield Question(who, "GET", "/v1/recall", some)


def wholes(who: str) -> Iterator[Question]:
    """Queries about whole entities and scopes."""
    for entity in (*ENTITIES, NAME):
        for depth in (1, 3):
            where = {"entity": entity, "scope": SCOPE, "depth": depth}
            yield Question(who, "GET", "/v1/graph/neighbors", where)
        yield Question(who, "GET", f"/v1/cards/{entity}", {"scope": SCOPE, "refresh": True})
        yield Question(who, "GET", f"/v1/time-travel/entities/{entity}")
        yield Question(who, "GET", "/v1/entities/resolve", {"uri": entity, "threshold": 0})
    yield Question(who, "POST", "/v1/lint", body={"scope": SCOPE, "stale_lookahead_s": 10**8})
    yield Question(who, "GET", f"/v1/scopes/{SCOPE}/synthesize", {"include_expired": True})
    yield Question(who, "GET", "/v1/aliases")
    for words in ("a", "user", "tea", "b c"):
        yield Question(who, "GET", "/v1/search", {"q": words})
    yield Question(who, "GET", f"/v1/intents/{INTENT}")


def memories(who: str) -> Iterator[Question]:
    """Episodes, deltas and rules."""
    for user in USERS:
        for more in ({}, {"limit": 1}, {"session": "s1"}):
            yield Question(who, "GET", "/v1/episodes", {"user": user, **more})
        for status in ("applied", "rejected"):
            yield Question(who, "GET", "/v1/deltas", {"user": user, "status": status})
        yield Question(who, "GET", "/v1/deltas/facts", {"user": user})
    for name in NAMES:
        yield Question(who, "GET", f"/v1/episodes/{name}")
    yield Question(who, "GET", "/v1/deltas", {"limit": 1})
    for more in ({}, {"limit": 1}):
        yield Question(who, "GET", "/v1/summaries", more)
    for path in ("rules", f"rules/{RULE}", "status"):
        yield Question(who, "GET", f"/v1/consolidation/{path}")


STATEMENTS = ("SELECT * FROM events ORDER BY position", "SELECT * FROM facts ORDER BY 1")


def statements() -> Iterator[Question]:
    """SQL over the log; each costs a process, so they are few."""
    for sql in STATEMENTS:
        yield Question("key", "POST", "/v1/time-travel/sql", body={"sql": sql})


def told(past: Past, live: LiveNode, question: Question, at: int | None) -> list[Any]:
    """Status and body of every page, without generated parts."""
    moment = {} if at is None else {question.moment: f"position:{at}"}
    params, body = dict(question.params), question.body
    if body is None:
        params |= moment
    pages: list[Any] = []
    while True:
        tried = 0
        while True:  # which stages answered in time is not the law's
            answer = live.call(
                question.method,
                question.path,
                key=getattr(past, question.who),
                params=params,
                json=None if body is None else {**body, **moment},
            )
            tried += 1
            if '"status":"deadline"' not in answer.text or tried == 5:
                break
        pages.append((answer.status_code, MADE_UP.sub("", answer.text)))
        cursor = None
        if answer.status_code == 200 and question.path in PAGED and not params.get("tail"):
            cursor = json.loads(answer.text).get("cursor")
        if cursor is None or len(pages) > 30:
            return pages
        params["cursor"] = cursor


Recorded = list[tuple[Question, list[Any]]]


def recorded(past: Past, asked: Iterator[Question]) -> Recorded:
    """The node's answers at its head."""
    return [(question, told(past, past.live, question, None)) for question in asked]


def holds(
    past: Past, at: int, before: Recorded, intact: int, short: LiveNode | None = None
) -> None:
    """Assert that the node's answers about ``at`` equal the recorded ones, where nothing was erased
    since, and those of a node with the beginning of the log."""
    for question, answer in before:
        then = told(past, past.live, question, at)
        if at < intact:
            same(question, at, then, answer)
        if short is not None:
            same(question, at, then, told(past, short, question, None))


def same(question: Question, at: int, then: list[Any], now: list[Any]) -> None:
    """Fails where two answers differ, with the first place where they do."""
    if then == now:
        return
    one, other = json.dumps(then), json.dumps(now)
    place = next((n for n in range(min(len(one), len(other))) if one[n] != other[n]), 0)
    around = slice(max(place - 150, 0), place + 150)
    raise AssertionError(f"{question} at {at}:\n{one[around]}\n{other[around]}")


QUICK = settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a life takes an hour
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(pasts(), st.data())
@QUICK
def test_the_past_equals_the_answers_of_then(history: list[Step], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        past = Past(Path(folder) / "past")
        try:
            kept: dict[int, Recorded] = {}
            stops = data.draw(st.lists(st.integers(2, len(history)), min_size=2, max_size=3))
            for number, step in enumerate(history):
                if past.move(step) and stops and number >= min(stops):
                    stops.remove(min(stops))
                    head = past.node.log.head().position
                    kept[head] = recorded(past, questions(past))
            past.clock.advance(86_400_000_000)
            intact = past.erased()
            note(f"recorded at {list(kept)} of {past.node.log.head().position}, {intact=}")
            assume(kept)
            begun = data.draw(st.sampled_from(sorted(kept)))
            for position, before in kept.items():
                if position == begun:
                    with beginning(past, Path(folder) / "beginning", position) as short:
                        holds(past, position, before, intact, short)
                elif position < intact:
                    holds(past, position, before, intact)
        finally:
            past.close()


def test_every_moment_of_a_busy_life(tmp_path: Path) -> None:
    past = Past(tmp_path / "past")
    try:
        kept: dict[int, Recorded] = {}
        for number, step in enumerate(EVERYTHING):
            assert past.move(step), step
            if number % 12 == 4:
                asked = (*questions(past), *(statements() if number > 25 else ()))
                kept[past.node.log.head().position] = recorded(past, iter(asked))
        past.clock.advance(86_400_000_000)
        intact = past.erased()
        assert [position < intact for position in kept].count(True) >= 1
        assert [position < intact for position in kept].count(False) >= 3
        for position, before in kept.items():
            with beginning(past, tmp_path / f"to-{position}", position) as short:
                holds(past, position, before, intact, short)
    finally:
        past.close()


def test_past_vectors_equal_those_of_then(tmp_path: Path) -> None:
    """With a model: a fact that has ended since still matches the question."""
    with serving(words_api) as server:
        past = Past(tmp_path / "past", **settings_for(server))
        try:
            past.node.embed(past.live.settings.embedding)
            kept: dict[int, Recorded] = {}
            for number, step in enumerate(EVERYTHING[:-1]):
                past.move(step)
                if number % 8 == 7:
                    embedded(past.live)
                    asked = [each for each in questions(past) if each.path == "/v1/recall"]
                    kept[past.node.log.head().position] = recorded(past, iter(asked))
            past.clock.advance(86_400_000_000)
            embedded(past.live)
            for position, before in kept.items():
                holds(past, position, before, intact=position + 1)
            assert '"name":"semantic","status":"completed"' in str(kept)
        finally:
            past.close()


def test_every_route_with_a_moment_is_tested(tmp_path: Path) -> None:
    with lived(tmp_path, EVERYTHING) as past:
        asked = {(each.method, each.path) for each in (*questions(past), *statements())}
    for route in ROUTES:
        fields: set[str] = set()
        for model in (route.query, route.body):
            if model is not None:
                fields |= set(model.model_fields)
        if fields.isdisjoint({"as_of", "to"}) or route.permission == "write":
            continue
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(openapi_path(route.path)))
        assert any(
            method == route.method and re.fullmatch(pattern, path) for method, path in asked
        ), f"{route.method} {route.path} is not asked"
