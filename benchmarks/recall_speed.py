"""Recall's speed, in the process and over HTTP, compared with the engines it could use.

The node is a real process on a directory that the writer filled, with vectors in its ``vec_facts``.
Baselines of the same run, over the same facts: sqlite-vec's brute force for the nearest 50, and
FTS5's own bm25 for the best 50. Embedding is excluded: each question is embedded before it is
timed.
"""

import json
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from benchmarks.embedding_server import embedding_server
from benchmarks.recall_load import ask, side_by_side
from benchmarks.recall_world import DIMENSIONS, TENTH_SCOPE, Question, RecallWorld
from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient, serving, wait_ready
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import CONTROL_NAME
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.projections.arrays import F32
from engramlog.projections.authorization import everything
from engramlog.projections.embedding.recipe import Space, vectors_file
from engramlog.projections.embedding.semantics import Semantics
from engramlog.projections.embedding.vectors.in_memory import Vectors
from engramlog.projections.embedding.vectors.vec_facts import VecFacts, open_vectors
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.stages.lexical import query_terms
from engramlog.projections.recall.stages.semantic import COMPARED_MIN, COMPARED_SHARE
from engramlog.projections.text.terms import TOKENIZER, lexical_text

QUESTIONS = 200
BASELINE_QUESTIONS = 20
NEAREST = 50
BATCH = 1_000
EMBEDDED_SECONDS_MAX = 600.0
SPACE = Space("ollama", "benchmark", DIMENSIONS)

AIMS: dict[int, dict[str, str]] = {
    100_000: {"p50": "≤ 10", "p95": "≤ 25"},
    1_000_000: {"p50": "≤ 60", "p95": "≤ 120", "tenth p50": "≤ 20", "memory": "≤ 4"},
}


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts`` facts."""
    world = RecallWorld(facts)
    questions = world.questions(QUESTIONS)
    with tempfile.TemporaryDirectory(prefix="engramlog-recall-") as name:
        data = Path(name)
        _fill(data, world)
        vec = _sqlite_vec(data, world, questions[:BASELINE_QUESTIONS])
        fts, figures = _in_process(data, world, questions)
        figures += _http(data, world, questions, vec, fts)
        return figures


def _fill(data: Path, world: RecallWorld) -> None:
    say(f"writing {world.facts:,} facts and their vectors")
    node = Node.open(data)
    settle_heap()
    for page in world.pages():
        answers = [
            node.writer.submit(page[start : start + BATCH], actor="bench")
            for start in range(0, len(page), BATCH)
        ]
        for answer in answers:
            answer.result()
    ids = list(node.reader.image.facts.slot_of)
    table = VecFacts(data / vectors_file(SPACE), SPACE)
    for slots, rows in world.vectors():
        numbers: list[int] = slots.tolist()
        table.write(added=[(ids[n], row) for n, row in zip(numbers, rows, strict=True)])
    table.close()
    node.close()


# -- baselines ----------------------------------------------------------------------------


def _sqlite_vec(data: Path, world: RecallWorld, questions: list[Question]) -> float:
    """Milliseconds for the nearest 50 of ``vec_facts``, at the median."""
    say("sqlite-vec, brute force")
    db = open_vectors(data / vectors_file(SPACE))
    sql = f"SELECT id, distance FROM vec_facts WHERE embedding MATCH ? AND k={NEAREST}"

    def ask(question: Question) -> None:
        db.execute(sql, (world.question_vector(question).tobytes(),)).fetchall()

    found = percentile(_timed(ask, questions), 0.5)
    db.close()
    return found


def _fts5(node: Node, data: Path, questions: list[Question]) -> float:
    """Milliseconds for the best 50 by FTS5's bm25 over the texts that the node searches, at the
    median."""
    say("FTS5, bm25")
    view = node.reader.pin()
    db = apsw.Connection(str(data / "fts5.db"))
    name, settings = TOKENIZER
    tokenizer = " ".join([name, *(f"'{each}'" for each in settings)])
    db.execute(f'CREATE VIRTUAL TABLE texts USING fts5 (text, content="", tokenize="{tokenizer}")')
    with node.reader.pool.connection() as tables, db:
        rows = tables.execute("SELECT entity, relation, value_type, value_v FROM facts")
        texts = ((lexical_text(*row),) for row in rows)
        db.executemany("INSERT INTO texts (text) VALUES (?)", texts)
    sql = f"SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT {NEAREST}"

    def ask(question: Question) -> None:
        terms = " OR ".join(f'"{term}"' for term in query_terms(view, question.text))
        db.execute(sql, (terms,)).fetchall()

    found = percentile(_timed(ask, questions), 0.5)
    db.close()
    return found


def _timed(ask: Callable[[Question], Any], questions: list[Question]) -> list[float]:
    """Milliseconds of each."""
    taken: list[float] = []
    for question in questions:
        watch = Stopwatch()
        ask(question)
        taken.append(watch.seconds * 1e3)
    return taken


# -- in the process -----------------------------------------------------------------------


class Made:
    """Vectors of questions without a model."""

    def __init__(self, world: RecallWorld) -> None:
        self._world = world
        self._known: dict[str, F32] = {}

    def know(self, questions: list[Question]) -> None:
        self._known.update((q.text, self._world.question_vector(q)) for q in questions)

    def reads(self, _text: str) -> bool:
        return True

    def query(self, text: str) -> F32:
        """A question's vector; any other text gets its own."""
        known = self._known.get(text)
        return self._world.question_vector(Question(text, 0)) if known is None else known


def _in_process(
    data: Path, world: RecallWorld, questions: list[Question]
) -> tuple[float, list[Figure]]:
    say("recall in the process")
    node = Node.open(data)
    settle_heap()
    vectors = Vectors(DIMENSIONS)
    for slots, rows in world.vectors():
        vectors.put(slots, rows)
    made = Made(world)
    made.know(questions)
    semantics = Semantics(made, vectors, 0.1)  # pyright: ignore[reportArgumentType]
    profile, rights, reader = load_profile("default"), everything(), node.reader

    def ask(question: Question, scopes: frozenset[str] | None = None) -> None:
        view = reader.pin()
        request = RecallRequest(query=question.text, scopes=scopes)
        answer = recall(
            view, reader.rows, request, profile, rights, node.moment(),
            slots_of_cid=reader.slots_of_cid, semantics=semantics,
        )  # fmt: skip
        assert answer.results

    fts = _fts5(node, data, questions[:BASELINE_QUESTIONS])
    taken = _timed(ask, questions)
    tenth = _timed(lambda q: ask(q, frozenset({TENTH_SCOPE})), questions)
    figures = [
        *_percentiles("in process", taken),
        *_percentiles(f"in process, scope {TENTH_SCOPE}", tenth),
        _agreement(vectors, world, questions),
    ]
    node.close()
    return fts, figures


def _agreement(vectors: Vectors, world: RecallWorld, questions: list[Question]) -> Figure:
    """The share of the exactly nearest 50 that the sketch lets through."""
    slots = np.arange(world.facts, dtype=np.int32)
    compared = max(COMPARED_MIN, int(world.facts * COMPARED_SHARE))
    found = 0
    for question in questions:
        query = world.question_vector(question)
        cosines, _ = vectors.cosines(query, slots)
        nearest = np.lexsort((slots, -cosines))[:NEAREST]
        found += int(np.isin(nearest, vectors.likely(query, slots, compared)).sum())
    share = found / (NEAREST * len(questions))
    return Figure("nearest 50 kept by the sketch", share, "of 1", aim="≥ 0.999")


def _percentiles(name: str, taken: list[float], **more: Any) -> list[Figure]:
    first, *others = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    return [
        Figure(f"{name}, {first[0]}", percentile(taken, first[1]), "ms", **more),
        *(Figure(f"{name}, {label}", percentile(taken, share), "ms") for label, share in others),
    ]


# -- over HTTP ----------------------------------------------------------------------------


def _http(
    data: Path, world: RecallWorld, questions: list[Question], vec: float, fts: float
) -> list[Figure]:
    aims = AIMS.get(world.facts, {})
    made = Made(world)
    made.know(questions)
    with node_with(data, made) as (url, pid):
        client = RawClient(url)
        for question in questions:  # embeds them, and warms nothing else
            ask(client, question, weights={"lexical": 0, "semantic": 1, "graph": 0})
        say("recall over HTTP")
        taken = _timed(lambda q: ask(client, q), questions)
        tenth = _timed(lambda q: ask(client, q, scope=TENTH_SCOPE), questions)
        memory = _resident_gib(pid)
        client.close()
        p50 = percentile(taken, 0.5)
        return [
            Figure("HTTP, p50", p50, "ms", "sqlite-vec alone", p50 / vec, aims.get("p50", "")),
            Figure("HTTP, p95", percentile(taken, 0.95), "ms", aim=aims.get("p95", "")),
            Figure("HTTP, p99", percentile(taken, 0.99), "ms"),
            Figure("HTTP, p50 (again)", p50, "ms", "FTS5 bm25 alone", p50 / fts),
            *_percentiles(f"HTTP, scope {TENTH_SCOPE}", tenth, aim=aims.get("tenth p50", "")),
            Figure("sqlite-vec brute force, p50", vec, "ms"),
            Figure("FTS5 bm25, p50", fts, "ms"),
            Figure("resident memory", memory, "GiB", aim=aims.get("memory", "")),
            *side_by_side(url, questions),
        ]  # fmt: skip


@contextmanager
def node_with(data: Path, made: Made, **more: str) -> Generator[tuple[str, int], None, None]:
    """A served node, ready and with all its vectors: its URL and process id."""
    with ExitStack() as stack:
        embed_url = stack.enter_context(embedding_server(made.query))
        env = {
            "STIGMEM_EMBED_PROVIDER": SPACE.provider,
            "STIGMEM_EMBED_MODEL": SPACE.model,
            "STIGMEM_EMBED_DIMENSIONS": str(SPACE.dimensions),
            "STIGMEM_EMBED_URL": embed_url,
            **more,
        }
        say("starting the node")
        url = stack.enter_context(serving(data, env=env))
        wait_ready(url)
        client = RawClient(url)
        deadline = time.monotonic() + EMBEDDED_SECONDS_MAX
        while json.loads(client.request("GET", "/readyz")[1])["embedding"]["lag"]:
            assert time.monotonic() < deadline, "vectors were not loaded"
            time.sleep(0.1)
        client.close()
        yield url, json.loads((data / CONTROL_NAME).read_bytes())["pid"]


def _resident_gib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 2**20
    raise AssertionError("no VmRSS")
