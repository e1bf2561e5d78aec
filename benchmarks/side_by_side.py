"""``python -m benchmarks.side_by_side URL_A URL_B``: one client and workload, two stigmem nodes.

The nodes may be two versions of this one, or another implementation: it sends only the protocol's
requests. Both must be new and empty; they take turns, so that other load affects both alike.
``STIGMEM_API_KEY`` is a key that both accept. Ratios are A over B: A is better in rates above 1,
and in milliseconds below 1.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence

from benchmarks.report import Figure, Stopwatch, percentile, say, table
from benchmarks.serving import RawClient
from benchmarks.workload import fact_bodies

SIZES = (2_000, 20_000, 100_000)
KEY_VARIABLE = "STIGMEM_API_KEY"
WRITES = 200
READS = 200
RECALLS = 100
TURN = 20
"""Requests to one node before the other's turn."""
_OFFSET = 10_000_000

Asked = tuple[str, str, bytes]
"""Method, path, body."""


class Side:
    """One node: its client, and facts that it holds."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.ids: list[str] = []
        self._client = RawClient(url, key)

    def ask(self, asked: Asked) -> float:
        """Seconds of one request. Raises SystemExit if it is refused."""
        began = time.perf_counter()
        status, answer = self._client.request(*asked)
        seconds = time.perf_counter() - began
        if status not in (200, 201):
            raise SystemExit(f"{self.url} answers {asked[1]} with {status}: {answer[:200]!r}")
        if asked[:2] == ("POST", "/v1/facts"):
            self.ids.append(json.loads(answer)["id"])
        return seconds


def measure(urls: Sequence[str], sizes: Sequence[int], key: str = "") -> list[Figure]:
    """Figures of both nodes, filled to each of ``sizes`` in turn."""
    sides = [Side(url, key) for url in urls]
    figures: list[Figure] = []
    held = 0
    for size in sorted(sizes):
        rates = [_filled(side, held, size) for side in sides]
        held = size
        name = f"{size:,} facts"
        figures += _pair(f"{name}, writes while filling", "/s", rates)
        kinds: dict[str, list[list[Asked]]] = {
            "POST": [_writes(size)] * 2,
            "GET by id": [_reads(side) for side in sides],
            "list of 50": [[("GET", "/v1/facts?limit=50", b"")] * READS] * 2,
            "recall": [_recalls(size)] * 2,
        }
        for kind, asked in kinds.items():
            say(f"{name}, {kind}")
            taken = _in_turns(sides, asked)
            for label, share in (("p50", 0.5), ("p95", 0.95)):
                values = [percentile(each, share) * 1e3 for each in taken]
                figures += _pair(f"{name}, {kind}, {label}", "ms", values)
    return figures


def _filled(side: Side, held: int, size: int) -> float:
    """Writes per second while a node is filled with single facts, which every node accepts."""
    say(f"{side.url}: {size - held:,} facts")
    watch = Stopwatch()
    for body in fact_bodies(size - held, first=held):
        side.ask(("POST", "/v1/facts", json.dumps(body).encode()))
    return (size - held) / watch.seconds


def _writes(size: int) -> list[Asked]:
    bodies = fact_bodies(WRITES, seed=size, first=_OFFSET + size)
    return [("POST", "/v1/facts", json.dumps(body).encode()) for body in bodies]


def _reads(side: Side) -> list[Asked]:
    step = max(1, len(side.ids) // READS)
    return [("GET", f"/v1/facts/{fact}", b"") for fact in side.ids[::step][:READS]]


def _recalls(size: int) -> list[Asked]:
    """New questions: the words of existing facts, and a number."""
    texts = [str(body["value"]["v"]) for body in fact_bodies(size)][:: max(1, size // RECALLS)][
        :RECALLS
    ]
    questions = [" ".join(text.split()[:4]) + f" {size}" for text in texts]
    bodies_asked = [{"query": question, "scope": "local"} for question in questions]
    return [("POST", "/v1/recall", json.dumps(body).encode()) for body in bodies_asked]


def _in_turns(sides: Sequence[Side], asked: Sequence[Sequence[Asked]]) -> list[list[float]]:
    """Seconds of each request, by side."""
    taken: list[list[float]] = [[] for _ in sides]
    for first in range(0, max(map(len, asked)), TURN):
        for side, requests, seconds in zip(sides, asked, taken, strict=True):
            seconds += [side.ask(each) for each in requests[first : first + TURN]]
    return taken


def _pair(name: str, unit: str, values: Sequence[float]) -> list[Figure]:
    first, second = values
    return [Figure(f"{name}, A", first, unit, "B", first / second),
            Figure(f"{name}, B", second, unit)]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("url", nargs=2, metavar="URL", help="an empty stigmem node")
    parser.add_argument(
        "--facts", type=int, nargs="+", default=list(SIZES), metavar="N", help="sizes to fill to"
    )
    args = parser.parse_args(arguments)
    print(table(measure(args.url, args.facts, os.environ.get(KEY_VARIABLE, ""))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
