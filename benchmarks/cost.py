"""The cost of one operation on a node as it ships: bundled model, receipts, keys on.

Processor time is that of the serving process until all work of the operation is done; the model's
process is counted apart. A bare aiohttp handler takes and answers JSON of the same size in the same
run. Python calls, SQL statements and bytes do not depend on the machine: a second node counts them
(``counted_node``). Vectors of facts are made near their topic's, which the bundled model gives; the
node embeds questions, each for the first time. With ``STIGMEM_EMBED_PROVIDER=none`` nothing is
embedded.
"""

import json
import os
import secrets
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from msgspec import Struct

from benchmarks.bare_handler import bare_handler
from benchmarks.counted_node import FOLDER, Counts, counts_of
from benchmarks.processes import Usage, children_of, command_of, usage_of
from benchmarks.recall_world import RecallWorld
from benchmarks.report import Figure, percentile, say
from benchmarks.serving import COMMAND_LINE, RawClient, serving, wait_ready
from benchmarks.workload import SOURCES, fact_bodies
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import read_control
from engramlog.api.node.process.process_tuning import settle_heap
from engramlog.projections.arrays import F32, I32
from engramlog.projections.embedding.providers.bundled.minilm import INT8, MiniLM
from engramlog.projections.embedding.recipe import Space, vectors_file
from engramlog.projections.embedding.vectors.vec_facts import VecFacts

SIZES = (2_000, 20_000, 100_000)
BATCH = 1_000
BATCHES = 2
POSTS = 300
READS = 500
RECALLS = 100
WARM = 30
SETTLED_SECONDS_MAX = 900.0
_POLL_SECONDS = 2.0
"""Rarely: the node answers these requests too."""


Request = tuple[str, str, bytes, str]
"""Method, path, body and its media type."""


class Operation(Struct, frozen=True):
    """Requests, each sent once: ``together`` of them are one step, and count as ``units``
    operations."""

    name: str
    requests: list[Request]
    units: int = 1
    aim: str = ""
    together: int = 1

    @property
    def warm(self) -> int:
        """How many requests are sent before anything is measured."""
        return self.together * (1 if self.units > 1 else WARM)

    @property
    def measured(self) -> int:
        """How many operations are measured."""
        return (len(self.requests) - self.warm) // self.together * self.units


class Cost(Struct):
    """The cost of one operation."""

    seconds: float = 0.0
    model_seconds: float = 0.0
    bare_seconds: float = 0.0
    p50_seconds: float = 0.0
    written: float = 0.0
    answered: float = 0.0
    calls: float = 0.0
    statements: float = 0.0


def measure(facts: int) -> list[Figure]:
    """Figures; recalls run over each of ``SIZES`` up to ``facts``."""
    with tempfile.TemporaryDirectory(prefix="engramlog-cost-") as name:
        folder = Path(name)
        costs: dict[str, Cost] = {}
        aims: dict[str, str] = {}
        sizes = [size for size in SIZES if size <= facts] or [facts]
        with bare_handler() as (bare_url, bare_pid):
            for size in sizes:
                world = ModelWorld(size)
                for counted in (False, True):
                    data = folder / f"{size}-{counted}"
                    fill(data, world)
                    with shipped(data, counted=counted) as node:
                        for operation in _operations(node, world, all_kinds=size == sizes[0]):
                            say(f"{operation.name}{', counted' if counted else ''}")
                            cost = costs.setdefault(operation.name, Cost())
                            aims[operation.name] = operation.aim
                            if counted:
                                _count(node, operation, cost)
                            else:
                                answered = _time(node, operation, cost)
                                _bare(bare_url, bare_pid, operation, answered, cost)
        return [figure for name, cost in costs.items() for figure in _figures(name, cost, aims)]


class ModelWorld(RecallWorld):
    """The same facts; the centre of a topic is the bundled model's vector of its words."""

    def __init__(self, facts: int) -> None:
        super().__init__(facts)
        self.space = Space("minilm", INT8, MiniLM.dimensions)
        texts = [" ".join(self.topic_words(topic)[:20]) for topic in range(self.topics)]
        self._topics_seen = MiniLM().embed(texts)

    def vectors(self) -> Iterator[tuple[I32, F32]]:
        for first in range(0, self.facts, BATCH):
            slots = np.arange(first, min(first + BATCH, self.facts), dtype=np.int32)
            chance = np.random.default_rng((5, first))
            own = chance.standard_normal((len(slots), self.space.dimensions), dtype=np.float32)
            own *= 0.8 / self.space.dimensions**0.5
            rows = self._topics_seen[self.topics_of(first, len(slots))] + own
            yield slots, rows / np.linalg.norm(rows, axis=1, keepdims=True)


class ShippedNode(Struct, frozen=True):
    """A served node, and its address."""

    url: str
    pid: int
    key: str
    folder: Path

    def client(self) -> RawClient:
        return RawClient(self.url, self.key)

    def model(self) -> Usage:
        """The usage of the model's process, once it runs."""
        return sum(
            (usage_of(pid) for pid in children_of(self.pid) if "model_server" in command_of(pid)),
            Usage(0.0, 0),
        )

    def settle(self) -> None:
        """Return once no embedding or write is waiting."""
        client = self.client()
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while json.loads(client.request("GET", "/readyz")[1])["embedding"]["lag"]:
            assert time.monotonic() < deadline, "the node does not come to rest"
            time.sleep(_POLL_SECONDS)
        client.close()


def fill(data: Path, world: ModelWorld) -> None:
    """A data directory with the world's facts and vectors."""
    node = Node.open(data)
    settle_heap()
    for page in world.pages():
        node.writer.submit(page, actor="bench").result()
    ids = list(node.reader.image.facts.slot_of)
    table = VecFacts(data / vectors_file(world.space), world.space)
    for slots, rows in world.vectors():
        numbers: list[int] = slots.tolist()
        table.write(added=[(ids[n], row) for n, row in zip(numbers, rows, strict=True)])
    table.close()
    node.close()


@contextmanager
def shipped(data: Path, *, counted: bool = False) -> Generator[ShippedNode]:
    """The node as it ships, for a ``with`` block; ``counted``: it counts."""
    with ExitStack() as stack:
        provider = os.environ.get("STIGMEM_EMBED_PROVIDER", "minilm")
        env = {FOLDER: str(data), "STIGMEM_EMBED_PROVIDER": provider}
        module = "benchmarks.counted_node" if counted else COMMAND_LINE
        url = stack.enter_context(serving(data, env=env, module=module, keys=True))
        wait_ready(url)
        control = read_control(data)
        assert control is not None
        key = secrets.token_urlsafe(32)
        asking = RawClient(url, control.token)
        body = {
            "raw_key": key,
            "entity_uri": "agent:bench",
            "permissions": ["read", "write"],
            "sources": SOURCES,
        }
        status, answer = asking.post("/v1/auth/keys", body)
        assert status == 201, answer
        asking.close()
        node = ShippedNode(url, control.pid, key, data)
        node.settle()
        yield node


def _operations(node: ShippedNode, world: ModelWorld, *, all_kinds: bool) -> Iterator[Operation]:
    """In order: recalls first, over the world's facts alone."""
    questions = [
        {"query": question.text, "scope": "*"} for question in world.questions(RECALLS + WARM)
    ]
    aim = {2_000: "≤ 4 ms", 100_000: "≤ 7 ms"}.get(world.facts, "")
    recalls = _posts(f"recall, {world.facts:,} facts", "/v1/recall", questions, aim)
    yield recalls
    if not all_kinds:
        return
    written = _posts("", "/v1/facts", fact_bodies(RECALLS + WARM, first=4 * 10**6))
    turns = [each for turn in zip(written.requests, recalls.requests, strict=True) for each in turn]
    yield Operation("POST, then recall", turns, together=2)
    yield _gets("list of 50", ["/v1/facts?limit=50"] * (READS + WARM))
    posted = fact_bodies(POSTS + WARM, first=10**6)
    yield _posts("POST", "/v1/facts", posted, "≤ 0.9 ms, 3x")
    bodies = [json.dumps(body) for body in fact_bodies(BATCH * (BATCHES + 1), first=2 * 10**6)]
    pages = [bodies[first : first + BATCH] for first in range(0, len(bodies), BATCH)]
    lines = [
        ("POST", "/v1/facts/batch", "\n".join(page).encode(), "application/x-ndjson")
        for page in pages
    ]
    yield Operation("batch of 1,000, a fact", lines, BATCH, "≤ 0.05 ms")
    client = node.client()
    found = json.loads(client.request("GET", "/v1/facts?limit=50")[1])["facts"]
    client.close()
    paths = [f"/v1/facts/{found[n % len(found)]['id']}" for n in range(READS + WARM)]
    yield _gets("GET by id", paths, "≤ 1.5x")


def _posts(name: str, path: str, bodies: Iterable[object], aim: str = "") -> Operation:
    encoded = [json.dumps(body).encode() for body in bodies]
    return Operation(name, [("POST", path, body, "application/json") for body in encoded], aim=aim)


def _gets(name: str, paths: Sequence[str], aim: str = "") -> Operation:
    return Operation(name, [("GET", path, b"", "application/json") for path in paths], aim=aim)


def _ask(client: RawClient, requests: Sequence[Request]) -> list[bytes]:
    answers: list[bytes] = []
    for method, path, body, kind in requests:
        status, answer = client.request(method, path, body, kind)
        assert status in (200, 201), answer
        answers.append(answer)
    return answers


def _time(node: ShippedNode, operation: Operation, cost: Cost) -> bytes:
    """Fill in the machine-dependent figures; returns the last answer."""
    client, warm = node.client(), operation.warm
    _ask(client, operation.requests[:warm])
    client.close()
    node.settle()  # longer than an idle connection is kept
    client = node.client()
    before, model = usage_of(node.pid), node.model()
    taken: list[float] = []
    size = 0
    answer = b""
    for first in range(warm, len(operation.requests), operation.together):
        began = time.perf_counter()
        answers = _ask(client, operation.requests[first : first + operation.together])
        taken.append(time.perf_counter() - began)
        size += sum(map(len, answers))
        answer = answers[-1]
    node.settle()
    used, model = usage_of(node.pid) - before, node.model() - model
    client.close()
    count = operation.measured
    cost.seconds, cost.written = used.seconds / count, used.written / count
    cost.model_seconds = model.seconds / count
    cost.p50_seconds = percentile(taken, 0.5) / operation.units
    cost.answered = size / count
    return answer


def _bare(url: str, pid: int, operation: Operation, answered: bytes, cost: Cost) -> None:
    """The same requests to the handler that only parses and answers."""
    client, warm = RawClient(url), operation.warm
    client.request("PUT", "/", answered)
    requests = [
        (method, path, _as_json(body, kind), "application/json")
        for method, path, body, kind in operation.requests
    ]
    _ask(client, requests[:warm])
    before = usage_of(pid)
    _ask(client, requests[warm:])
    used = usage_of(pid) - before
    client.close()
    cost.bare_seconds = used.seconds / operation.measured


def _as_json(body: bytes, kind: str) -> bytes:
    if kind == "application/json":
        return body
    return b"[" + b",".join(body.split(b"\n")) + b"]"


def _count(node: ShippedNode, operation: Operation, cost: Cost) -> None:
    """Fill in the figures that do not depend on the machine."""
    client, warm = node.client(), operation.warm
    _ask(client, operation.requests[:warm])
    before: Counts = counts_of(node.pid, node.folder)
    _ask(client, operation.requests[warm:])
    found = counts_of(node.pid, node.folder) - before
    client.close()
    cost.calls = found.calls / operation.measured
    cost.statements = found.statements / operation.measured


def _figures(name: str, cost: Cost, aims: dict[str, str]) -> list[Figure]:
    return [
        Figure(
            f"{name}, processor", cost.seconds * 1e3, "ms", "bare handler",
            cost.seconds / cost.bare_seconds, aims[name],
        ),
        Figure(f"{name}, the model's", cost.model_seconds * 1e3, "ms"),
        Figure(f"{name}, p50 on the clock", cost.p50_seconds * 1e3, "ms"),
        Figure(f"{name}, Python calls", cost.calls, ""),
        Figure(f"{name}, SQL statements", cost.statements, ""),
        Figure(f"{name}, written", cost.written, "bytes"),
        Figure(f"{name}, answered", cost.answered, "bytes"),
    ]  # fmt: skip
