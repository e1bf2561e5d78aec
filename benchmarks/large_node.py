"""A node with very many facts: loading, starting, recalls now and as of past moments, memory, disk.

``python -m benchmarks.large_node FOLDER``. Embeddings are off: two cores would embed six million
texts in a day. A folder that holds a store is not loaded again.
"""

import argparse
import json
from pathlib import Path

from benchmarks.processes import usage_of
from benchmarks.recall_world import RecallWorld
from benchmarks.report import Figure, Stopwatch, percentile, say, table
from benchmarks.serving import RawClient, serving_process, wait_ready
from engramlog.api.node.node import Node

FACTS = 6_000_000
BATCH = 2_000
RECALLS = 50
"""Of each sort."""
GIB = 2**30


def measure(folder: Path, facts: int) -> list[Figure]:
    """Figures of a store in ``folder``."""
    world = RecallWorld(facts)
    data = folder / "node"
    figures = [] if data.exists() else _load(data, world)
    sizes = {path.name: path for path in data.iterdir()}
    figures += [
        Figure(f"disk, {name}", _bytes(sizes[name]) / GIB, "GiB")
        for name in ("log.db", "projections.db", "image")
    ]
    say("starting")
    watch = Stopwatch()
    with serving_process(data, env={"STIGMEM_EMBED_ENABLED": "false"}) as (url, pid):
        wait_ready(url)
        figures += [
            Figure("start, to ready", watch.seconds, "s"),
            Figure("start, processor", usage_of(pid).seconds, "s"),
            Figure("memory after the start, private", _private_gib(pid), "GiB"),
        ]
        say("recalls")
        client = RawClient(url)
        texts = [question.text for question in world.questions(3 * RECALLS)]
        figures += _recalls(
            client, pid, "recall now", [{"query": text} for text in texts[:RECALLS]]
        )
        moments = [f"position:{facts * (n + 1) // (RECALLS + 1)}" for n in range(RECALLS)]
        past = [
            {"query": text, "as_of": moment}
            for text, moment in zip(texts[RECALLS:], moments, strict=False)
        ]
        figures += _recalls(client, pid, "recall as of a new moment", past)
        figures.append(Figure("memory after the recalls, private", _private_gib(pid), "GiB"))
        client.close()
    return figures


def _load(data: Path, world: RecallWorld) -> list[Figure]:
    say(f"writing {world.facts:,} facts")
    node = Node.open(data)
    watch, written = Stopwatch(), 0
    for page in world.pages():
        for start in range(0, len(page), BATCH):
            node.write(*page[start : start + BATCH], actor="bench")
        written += len(page)
        if written % 500_000 == 0:
            say(f"  {written:,}, {written / watch.seconds:,.0f} a second")
    loaded = watch.seconds
    watch = Stopwatch()
    node.close()
    return [
        Figure("load", world.facts / loaded, "facts/s"),
        Figure("closing, with the image files", watch.seconds, "s"),
    ]


def _recalls(client: RawClient, pid: int, name: str, bodies: list[dict[str, str]]) -> list[Figure]:
    times: list[float] = []
    before = usage_of(pid).seconds
    for body in bodies:
        watch = Stopwatch()
        status, answer = client.post("/v1/recall", {**body, "scope": "*"})
        times.append(watch.seconds * 1000.0)
        if status != 200 or not json.loads(answer)["facts"]:
            raise RuntimeError(f"{name}: {status} {answer[:300]!r}")
    processor = (usage_of(pid).seconds - before) * 1000.0 / len(bodies)
    return [
        Figure(f"{name}, p50", percentile(times, 0.5), "ms"),
        Figure(f"{name}, p95", percentile(times, 0.95), "ms"),
        Figure(f"{name}, processor", processor, "ms"),
    ]


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_blocks * 512 for each in files)


def _private_gib(pid: int) -> float:
    """Memory that the process shares with no file and no other process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 2**20


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_node", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="20 GB of room")
    parser.add_argument("--facts", type=int, default=FACTS, help=f"({FACTS:,})")
    arguments = parser.parse_args()
    print(table(measure(arguments.folder, arguments.facts)))


if __name__ == "__main__":
    main()
