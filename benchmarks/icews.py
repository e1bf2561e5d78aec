"""90,730 dated political events, and 2,500 questions about a day's valid facts.

Baseline: a store that knows facts but not their validity answers with every object ever stated.
That is right for questions whose answer never changed.
"""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient, serving

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "icews14"
SET_VALUED = {"STIGMEM_SET_VALUED_RELATIONS": "icews:*"}
FIRST_DAY = datetime(2014, 1, 1, tzinfo=UTC)
BATCH = 2_000


class Probe(Struct, frozen=True):
    """A list to request, and the values it must contain; ``ever``: how many there ever were."""

    query: dict[str, str]
    expected: frozenset[str]
    ever: int


def measure(facts: int) -> list[Figure]:
    """Figures for the whole set (``facts`` is not used)."""
    del facts
    if not DATA.exists():
        say("icews: skipped, ../shared/data/icews14 is not here")
        return []
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name) / "node", env=SET_VALUED) as url,
    ):
        client = RawClient(url)
        say("writing the events")
        watch = Stopwatch()
        count = written(lambda items: json.loads(client.post("/v1/facts/batch", items)[1]))
        seconds = watch.seconds
        exact, ever, latencies = 0, 0, list[float]()
        for probe in probes():
            watch = Stopwatch()
            _, body = client.request("GET", f"/v1/facts?{urlencode(probe.query)}")
            latencies.append(watch.seconds)
            exact += expected(json.loads(body)) == probe.expected
            ever += len(probe.expected) == probe.ever
        client.close()
    total = len(latencies)
    return [
        Figure("icews14 written", count / seconds, "facts/s"),
        Figure("icews14 probes exact", 100 * exact / total, "%", "without valid time",
               exact / ever, "100 %"),
        Figure("icews14 probe, p50", percentile(latencies, 0.5) * 1e3, "ms"),
        Figure("icews14 probe, p95", percentile(latencies, 0.95) * 1e3, "ms"),
    ]  # fmt: skip


def written(
    post: Callable[[list[dict[str, Any]]], Any],
    wanted: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> int:
    """Write the ``wanted`` events with ``post``, which takes a batch and returns its answer;
    returns how many."""
    count = 0
    batch: list[dict[str, Any]] = []
    with gzip.open(DATA / "facts.jsonl.gz", "rt") as lines:
        for line in lines:
            fact = _fact(json.loads(line))
            if wanted(fact):
                batch.append(fact)
            if len(batch) == BATCH:
                count += _made(post(batch))
                batch = []
    return count + (_made(post(batch)) if batch else 0)


def _made(answer: Any) -> int:
    statuses = [each["status"] for each in answer["results"]]
    assert set(statuses) == {201}, statuses
    return len(statuses)


def probes() -> Iterator[Probe]:
    """The questions, each asked at noon of its day."""
    for line in (DATA / "asof.jsonl").read_text().splitlines():
        probe = json.loads(line)
        noon = _day(probe["t"]) + timedelta(hours=12)
        yield Probe(
            {
                "entity": _entity(probe["s"]),
                "relation": f"icews:{probe['r']}",
                "valid_at": noon.isoformat(),
                "limit": "500",
            },
            frozenset(probe["expected"]),
            int(probe["ever"]),
        )


def expected(answer: Any) -> frozenset[str]:
    """The values of a list of facts, which must be complete."""
    assert answer["cursor"] is None
    return frozenset(fact["value"]["v"] for fact in answer["facts"])


def _fact(event: dict[str, Any]) -> dict[str, Any]:
    """Valid from the first moment of its first day to the last of its last."""
    return {
        "op": "assert",
        "entity": _entity(event["s"]),
        "relation": f"icews:{event['r']}",
        "value": {"type": "string", "v": event["o"]},
        "source": "agent:icews",
        "scope": "local",
        "valid_from": _day(event["from"]).isoformat(),
        "valid_until": _day(event["to"] + 1).isoformat(),
    }


def _entity(code: str) -> str:
    return f"stigmem://icews.example/actor/{code}"


def _day(number: int) -> datetime:
    return FIRST_DAY + timedelta(days=number)
