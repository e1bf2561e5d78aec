"""The law of time travel at large: an as-of answer equals the earlier live answer.

Writes conversations of LoCoMo and the history of a parliament to nodes. At moments spread over each
log it asks live questions and keeps their answers: recalls with all stages, lists, neighbours,
cards, conflicts, lives. In between it retracts facts, distrusts sources, sweeps, and counts
recalls. In the end it asks every question again as of its moment. Answers are compared byte for
byte, except generated names, durations, and the repeated question.
"""

import gzip
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from benchmarks.congress import DATA as CONGRESS
from benchmarks.in_process import Served, served
from benchmarks.question_sets import DATA as LOCOMO
from benchmarks.question_sets import Conversation, conversations, intent_of_turn, wait_embedded
from benchmarks.report import Figure, Stopwatch, say
from engramlog.eventlog.kinds import DecayPolicy, FactAsserted, SourceTrustSet, Value
from engramlog.projections.cid import with_cid
from engramlog.projections.embedding.errors import EmbeddingError
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    RetractFact,
    SweepDecay,
)

START_US = 1_700_000_000_000_000
LOCOMO_MOMENTS = 8
RECALLS = 36
CONGRESS_EVENTS = 24_000
CONGRESS_MOMENTS = 24
GROUP = 200
TRIES = 20
PROFILES = ("default", "stargraph", "stigmem")
MADE_UP = re.compile(
    r'"(recall_id|receipt_id|cursor)":"[^"]*"|"milliseconds":[0-9.e+-]+'
    r'|"as_of":(null|"position:[0-9]+")'
)


class Ask(Struct, frozen=True):
    """A question without its moment."""

    path: str
    query: dict[str, str] = {}
    body: dict[str, Any] | None = None


class Kept(Struct, frozen=True):
    """The answer at a position."""

    ask: Ask
    position: int
    answer: str


def measure(facts: int) -> list[Figure]:
    """Figures (``facts`` is not used)."""
    del facts
    figures: list[Figure] = []
    runs: tuple[tuple[str, Path, Callable[[Path], tuple[int, int, float]]], ...] = (
        ("LoCoMo", LOCOMO, _locomo),
        ("congress", CONGRESS, _congress),
    )
    for name, data, run in runs:
        if not data.exists():
            say(f"asof_law: {name} skipped, ../shared/data/{data.name} is not here")
            continue
        with tempfile.TemporaryDirectory(prefix="engramlog-law-") as folder:
            equal, asked, seconds = run(Path(folder))
        say(f"{name}: {equal:,} of {asked:,} equal")
        what = f"answers as of = answers then, {name}, of {asked:,}"
        figures.append(Figure(what, 100 * equal / asked, "%", aim="100 %"))
        figures.append(Figure(f"asked again, {name}", asked / seconds, "answers/s"))
    return figures


# -- questions ----------------------------------------------------------------------------


def _answer(node: Served, ask: Ask, position: int | None) -> str:
    at = {} if position is None else {"as_of": f"position:{position}"}
    path = f"{ask.path}?{urlencode({**ask.query, **at})}"
    tried = 0
    while True:  # the law does not cover which stages answer in time
        if ask.body is None:
            status, data = node.client.request("GET", path)
        else:
            status, data = node.client.post(ask.path, {**ask.body, **at})
        tried += 1
        late = b'"status":"deadline"' in data or b'"force_refresh_timeout":true' in data
        if not late or tried == TRIES:
            break
    return f"{status} {MADE_UP.sub('', data.decode())}"


def _keep(node: Served, asks: Sequence[Ask]) -> list[Kept]:
    position = node.node.log.head().position
    return [Kept(ask, position, _answer(node, ask, None)) for ask in asks]


def _again(node: Served, kept: Sequence[Kept]) -> tuple[int, int, float]:
    """How many answers equal the as-of ones, of how many, in how many seconds."""
    node.clock.advance(30 * 86_400_000_000)
    watch, equal = Stopwatch(), 0
    for each in kept:
        if _answer(node, each.ask, each.position) == each.answer:
            equal += 1
        else:
            say(f"differs at {each.position}: {each.ask}")
    return equal, len(kept), watch.seconds


def _recalls(texts: Sequence[str], scope: str) -> Iterator[Ask]:
    for text, profile in zip(texts, cycle(PROFILES), strict=False):
        body = {"query": text, "scope": scope, "profile": profile, "track": False}
        yield Ask("/v1/recall", body={**body, "explain": True, "limit": 20})


def _about(entity: str, scope: str) -> Iterator[Ask]:
    """Every other way to ask about an entity. A card is forced: a cached one may be stale and say
    so."""
    yield Ask("/v1/facts", {"entity": entity, "include_contradicted": "true", "limit": "500"})
    yield Ask("/v1/time-travel/state", {"entity": entity, "include_retracted": "true"})
    yield Ask("/v1/graph/neighbors", {"entity": entity, "scope": scope, "depth": "2"})
    yield Ask(f"/v1/cards/{quote(entity, safe='/:')}", {"scope": scope, "refresh": "true"})
    yield Ask("/v1/conflicts", {"limit": "50"})


def _write(node: Served, intents: Sequence[Command]) -> list[str]:
    """Ids of the facts, in order, an hour after the previous ones."""
    node.clock.advance(3_600_000_000)
    found: list[str] = []
    for start in range(0, len(intents), GROUP):
        for done in node.node.write(*intents[start : start + GROUP]):
            assert isinstance(done, Done), done
            if done.fact_id is not None:
                found.append(done.fact_id)
    return found


def _retract(fact_id: str) -> RetractFact:
    return RetractFact(fact_id=fact_id)


FADING = DecayPolicy(id="fade", mode="confidence", half_life_s=10 * 86_400.0, min_confidence=0.1)


# -- conversations ------------------------------------------------------------------------


def _locomo(folder: Path) -> tuple[int, int, float]:
    equal = asked = 0
    seconds = 0.0
    for conversation in conversations():
        say(f"conversation {conversation.name}")
        with served(folder / conversation.name, START_US, set_valued=("said",)) as node:
            try:
                node.node.embed(EmbeddingSettings(provider="minilm"))
            except EmbeddingError as fault:
                say(f"without vectors: {fault}")
            found = _again(node, _talk(node, conversation))
        equal, asked, seconds = equal + found[0], asked + found[1], seconds + found[2]
    return equal, asked, seconds


def _talk(node: Served, conversation: Conversation) -> list[Kept]:
    """Write the turns; in between, forget, distrust, sweep, recall and ask."""
    turns, texts = conversation.turns, cycle([each.text for each in conversation.questions])
    step = -(-len(turns) // LOCOMO_MOMENTS)
    kept: list[Kept] = []
    ids: list[str] = []
    for number, start in enumerate(range(0, len(turns), step)):
        made = [intent_of_turn(conversation.name, turn) for turn in turns[start : start + step]]
        new = _write(node, made)
        ids += new
        _write(node, [_retract(name) for name in new[3::20]])
        _write(node, [SourceTrustSet(source=made[0].fact.source, trust=0.3 + 0.1 * (number % 5))])
        _write(node, [SweepDecay(scopes=("local",), policies=(FADING,))])
        for text in islice(texts, 3):  # counted
            node.client.post("/v1/recall", {"query": text, "scope": "local"})
        node.flush()
        wait_embedded(node.node)
        asks = list(_recalls(list(islice(texts, RECALLS)), "local"))
        asks += _about(made[0].fact.entity, "local")
        kept += _keep(node, asks)
    return kept


# -- a parliament -------------------------------------------------------------------------


def _congress(folder: Path) -> tuple[int, int, float]:
    with gzip.open(CONGRESS / "events.jsonl.gz", "rt") as lines:
        events = [json.loads(line) for line in islice(lines, CONGRESS_EVENTS)]
    start_us = int(events[0]["t"]) * 1_000_000
    with served(folder / "congress", start_us, set_valued=("congress:*",)) as node:
        return _again(node, _sessions(node, events))


def _sessions(node: Served, events: Sequence[dict[str, Any]]) -> list[Kept]:
    step = len(events) // CONGRESS_MOMENTS
    ids: dict[tuple[Any, ...], str] = {}
    kept: list[Kept] = []
    for number, start in enumerate(range(0, len(events), step)):
        chunk = events[start : start + step]
        _take(node, chunk, ids)
        if number % 4 == 3:
            _write(node, [SweepDecay(scopes=("local",), policies=(FADING,))])
        subjects = [each["s"] for each in chunk[:: max(1, step // 6)]][:6]
        asks = [ask for s in subjects for ask in _about(_entity(s), "local")]
        asks += _recalls([f"{each['r']} {each['o']}" for each in chunk[:: step // 12]], "local")
        kept += _keep(node, asks)
    return kept


def _take(node: Served, events: Sequence[dict[str, Any]], ids: dict[tuple[Any, ...], str]) -> None:
    """Write events; runs of one kind go together."""
    run: list[dict[str, Any]] = []

    def flush() -> None:
        if not run:
            return
        keys = [(each["s"], each["r"], each["o"], each["vf"], each["vt"]) for each in run]
        if run[0]["op"] == "assert":
            ids.update(zip(keys, _write(node, [_member(each) for each in run]), strict=True))
        else:
            _write(node, [_retract(ids.pop(key)) for key in keys])
        run.clear()

    for event in events:
        if run and (run[0]["op"] != event["op"] or len(run) >= GROUP):
            flush()
        run.append(event)
    flush()


def _entity(subject: str) -> str:
    return f"stigmem://congress.example/{subject}".lower()


def _member(event: dict[str, Any]) -> AssertFact:
    entity, relation = _entity(event["s"]), f"congress:{event['r']}"
    value, source = Value("string", event["o"]), "agent:congress"
    fact = FactAsserted(
        entity, relation, value, source, "local",
        valid_from=_day(event["vf"]), valid_until=_day(event["vt"]),
    )  # fmt: skip
    return AssertFact(with_cid(fact))


def _day(date: str | None) -> str | None:
    return None if date is None else f"{date}T00:00:00Z"
