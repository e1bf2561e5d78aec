"""The cost of the past: recall, lists and differences as of any moment, compared with live.

The store is ``recall_world``'s, with its vectors; during writing, a fifth of the facts was
retracted and ten decay sweeps ran. A real process answers over HTTP. Baselines are the same
questions live, in the same run, in turns, so that both meet the same load. Each figure has clock
time and processor time of all threads of the node, which other load hardly changes.
"""

import json
import random
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.recall_speed import BATCH, SPACE, Made, node_with
from benchmarks.recall_world import Question, RecallWorld
from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient
from engramlog.api.node.node import Node
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.eventlog.kinds import DecayPolicy
from engramlog.projections.archive.archive import Archive
from engramlog.projections.embedding.recipe import vectors_file
from engramlog.projections.embedding.vectors.vec_facts import VecFacts
from engramlog.projections.normalization import SCOPES
from engramlog.projections.writing.commands import Done, RetractFact, SweepDecay

SWEEPS = 10
RETRACTED_SHARE = 0.2
RECALLS = 80
"""Of each sort. The node caches the vectors of 256 questions: more would be embedded again."""
LISTS = 200
DIFFERENCES = 10
FADING = DecayPolicy(id="fade", mode="confidence", half_life_s=90 * 86_400.0, min_confidence=0.2)


def measure(facts: int) -> list[Figure]:
    """Figures for ``facts`` facts."""
    world = RecallWorld(facts)
    questions = world.questions(3 * RECALLS)
    with tempfile.TemporaryDirectory(prefix="engramlog-time-") as name:
        data = Path(name)
        figures = _fill(data, world)
        made = Made(world)
        made.know(questions)
        with node_with(data, made, STIGMEM_RECALL_WORKERS="0") as (url, pid):
            client = RawClient(url)
            head = int(json.loads(client.request("GET", "/readyz")[1])["position"])
            figures += _recalls(client, questions, head, pid)
            figures += _lists(client, head)
            figures += _differences(client, head)
            client.close()
        return figures


# -- writing ------------------------------------------------------------------------------


def _fill(data: Path, world: RecallWorld) -> list[Figure]:
    say(f"writing {world.facts:,} facts, {SWEEPS} sweeps, {RETRACTED_SHARE:.0%} retracted")
    node = Node.open(data)
    settle_heap()
    chance = random.Random(5)
    live: list[str] = []
    written = 0
    sweeps: list[float] = []
    for page in world.pages():
        for start in range(0, len(page), BATCH):
            live += _ids(node, page[start : start + BATCH])
        written += len(page)
        while len(sweeps) < SWEEPS and written >= (len(sweeps) + 1) * world.facts / SWEEPS:
            chance.shuffle(live)
            count = int(world.facts * RETRACTED_SHARE / SWEEPS)
            gone, live = live[:count], live[count:]
            ends = [RetractFact(fact_id=name) for name in gone]
            for start in range(0, len(ends), BATCH):
                node.writer.submit(ends[start : start + BATCH], actor="bench").result()
            sweeps.append(_sweep(node))
    figures = [
        Figure("the last sweep, over all live facts", sweeps[-1], "s", aim="≤ 5 at 1,000,000"),
        *_seal(data, node),
    ]
    ids = list(node.reader.image.facts.slot_of)
    table = VecFacts(data / vectors_file(SPACE), SPACE)
    for slots, rows in world.vectors():
        numbers: list[int] = slots.tolist()
        table.write(added=[(ids[n], row) for n, row in zip(numbers, rows, strict=True)])
    table.close()
    node.close()
    return figures


def _ids(node: Node, page: list[Any]) -> list[str]:
    outcomes = node.writer.submit(page, actor="bench").result().outcomes
    done = [each for each in outcomes if isinstance(each, Done)]
    return [each.fact_id for each in done if each.fact_id is not None]


def _sweep(node: Node) -> float:
    """Seconds of one sweep of everything, which is one row of the log per scope."""
    before = node.log.head().position
    watch = Stopwatch()
    node.write(SweepDecay(scopes=SCOPES, policies=(FADING,)))
    seconds = watch.seconds
    assert node.log.head().position - before <= len(SCOPES)
    return seconds


def _seal(data: Path, node: Node) -> list[Figure]:
    say("sealing the archive")
    archive = Archive(node.directory, node.log)
    watch = Stopwatch()
    segments = archive.seal()
    seconds = watch.seconds
    if not segments:
        return []
    size = sum(path.stat().st_size for path in (data / "archive").glob("*.parquet"))
    share = archive.sealed / node.log.head().position
    whole = (data / "log.db").stat().st_size * share
    return [
        Figure("archive sealed", archive.sealed / seconds, "events/s"),
        Figure("archive", size / archive.sealed, "bytes/event", "log.db", size / whole),
    ]


# -- questions ----------------------------------------------------------------------------


def _recalls(client: RawClient, questions: list[Question], head: int, pid: int) -> list[Figure]:
    """Cold: a new moment for each question. Warm: one moment."""
    for question in questions:  # embeds them, and warms nothing else
        _recall(client, pid, question, weights={"lexical": 0, "semantic": 1, "graph": 0})
    say("recall, now and as of")
    chance = random.Random(7)
    live, cold, warm = list[Cost](), list[Cost](), list[Cost]()
    settled = f"position:{head // 2}"
    _recall(client, pid, questions[0], as_of=settled)
    for n in range(RECALLS):
        moment = f"position:{chance.randrange(head // 100, head)}"
        live.append(_recall(client, pid, questions[n]))
        cold.append(_recall(client, pid, questions[RECALLS + n], as_of=moment))
        warm.append(_recall(client, pid, questions[2 * RECALLS + n], as_of=settled))
    figures: list[Figure] = []
    for what, pick in (("", 0), (", processor", 1)):
        now = [cost[pick] for cost in live]
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            base = percentile(now, share)
            figures.append(Figure(f"recall now, {label}{what}", base, "ms"))
            for name, costs in (("any moment, cold", cold), ("the middle, warm", warm)):
                taken = percentile([cost[pick] for cost in costs], share)
                aim = "≤ 2x, ≤ 50 at 100,000" if label == "p95" else ""
                title = f"recall as of {name}, {label}{what}"
                figures.append(Figure(title, taken, "ms", f"now, {label}", taken / base, aim))
    return figures


Cost = tuple[float, float]
"""Milliseconds by the clock and of the node's processor time."""


def _recall(client: RawClient, pid: int, question: Question, **more: Any) -> Cost:
    body = {"query": question.text, "scope": "*", "track": False, "depth": 1, **more}
    before, watch = _processor_ms(pid), Stopwatch()
    status, data = client.post("/v1/recall", body)
    taken = watch.seconds * 1e3
    assert status == 200, data
    return taken, _processor_ms(pid) - before


def _processor_ms(pid: int) -> float:
    """Time that all threads of a process have run (Linux)."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e6


def _lists(client: RawClient, head: int) -> list[Figure]:
    say("lists, now and as of")
    chance = random.Random(9)
    shown = json.loads(client.request("GET", "/v1/facts?limit=500")[1])["facts"]
    names = sorted({fact["entity"] for fact in shown})
    live, past = list[float](), list[float]()
    for _ in range(LISTS):
        path = f"/v1/facts?include_contradicted=true&entity={quote(chance.choice(names))}"
        live.append(_get(client, path))
        past.append(_get(client, f"{path}&as_of=position:{chance.randrange(1, head)}"))
    p95 = percentile(live, 0.95)
    return [
        Figure("facts of an entity now, p95", p95, "ms"),
        Figure("facts of an entity as of, p95", percentile(past, 0.95), "ms", "now, p95",
               percentile(past, 0.95) / p95, "≤ 5"),
    ]  # fmt: skip


def _differences(client: RawClient, head: int) -> list[Figure]:
    say("differences")
    chance = random.Random(11)
    taken: list[float] = []
    for _ in range(DIFFERENCES):
        first, last = sorted((chance.randrange(1, head), chance.randrange(1, head)))
        query = f"from=position:{first}&to=position:{last}&limit=100"
        taken.append(_get(client, f"/v1/time-travel/diff?{query}"))
    whole = _get(client, f"/v1/time-travel/diff?from=position:1&to=position:{head}&limit=100")
    return [
        Figure(f"difference of two moments of {head:,} events, p50", percentile(taken, 0.5), "ms"),
        Figure("the worst of them", max(taken), "ms", aim="≤ 1,000 at 1,000,000"),
        Figure("difference of all", whole, "ms", aim="≤ 1,000 at 1,000,000"),
    ]


def _get(client: RawClient, path: str) -> float:
    """Milliseconds."""
    watch = Stopwatch()
    status, data = client.request("GET", path)
    taken = watch.seconds * 1e3
    assert status == 200, data
    return taken
