"""Counters and latencies of this process, in the Prometheus text format.

Label values are route patterns, methods and statuses only: never ids, entities or queries.
Some numbers appear twice: under our names, and under the names that the protocol's dashboards read
(``stigmem_``), without the labels that would name principals or peers.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TENANT_LABEL = '{tenant="default"}'


class Sample(NamedTuple):
    """A number: ``labels`` as ``{a="b"}`` or empty. A counter only grows until a restart."""

    name: str
    meaning: str
    value: float
    labels: str = ""

    @property
    def kind(self) -> str:
        """By the convention for names."""
        return "counter" if self.name.endswith("_total") else "gauge"


class _Answered(NamedTuple):
    """The labels by which requests are counted."""

    route: str
    method: str
    status: int


class _Durations(Struct):
    """The durations of some requests: how many in each bucket, and seconds in all."""

    counts: list[int]
    seconds: float = 0.0

    def add(self, other: "_Durations") -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.seconds += other.seconds


class Metrics:
    """Requests by route, method and status, and their durations."""

    def __init__(self) -> None:
        self._answered: dict[_Answered, _Durations] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        # a plain tuple finds the named one, and is faster
        found = self._answered.get((route, method, status))  # pyright: ignore[reportArgumentType]
        if found is None:
            found = self._answered[_Answered(route, method, status)] = _none()
        found.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        found.seconds += seconds

    def render(self, samples: Iterable[Sample]) -> str:
        """The exposition text: requests, then ``samples``."""
        lines: list[str] = []
        seen: set[str] = set()
        for each in (*self._counts(), *samples):
            if each.name not in seen:
                seen.add(each.name)
                lines += [f"# HELP {each.name} {each.meaning}", f"# TYPE {each.name} {each.kind}"]
            lines.append(f"{each.name}{each.labels} {each.value:.17g}")
        return "\n".join((*lines, *self._histograms())) + "\n"

    def _counts(self) -> Iterator[Sample]:
        for each, durations in sorted(self._answered.items(), key=itemgetter(0)):
            labels = f'{{route="{each.route}",method="{each.method}",status="{each.status}"}}'
            count = sum(durations.counts)
            yield Sample("engramlog_http_requests_total", "Requests answered.", count, labels)
        for name, meaning, chosen in (
            ("stigmem_fact_write_total", "Requests that stated facts.", _states_facts),
            ("stigmem_fact_read_total", "Lists of facts and recalls answered.", _reads_facts),
        ):
            count = sum(sum(each.counts) for key, each in self._answered.items() if chosen(key))
            yield Sample(name, meaning, count, TENANT_LABEL)

    def _histograms(self) -> Iterator[str]:
        yield from self._histogram(
            "engramlog_http_request_seconds",
            "Time to answer.",
            lambda each: f'route="{each.route}"',
        )
        yield from self._histogram(
            "stigmem_request_latency_seconds",
            "Time to answer.",
            lambda each: f'route="{each.route}",method="{each.method}",status_code="{each.status}"',
        )
        yield from self._histogram(
            "stigmem_recall_ranker_duration_seconds",
            "Time to answer a recall.",
            lambda each: TENANT_LABEL[1:-1] if _recalls(each) else None,
        )

    def _histogram(
        self, name: str, meaning: str, labels_of: Callable[[_Answered], str | None]
    ) -> Iterator[str]:
        """One histogram per set of labels; omits requests whose labels are None."""
        found: dict[str, _Durations] = {}
        for key in sorted(self._answered):
            labels = labels_of(key)
            if labels is not None:
                found.setdefault(labels, _none()).add(self._answered[key])
        yield from (f"# HELP {name} {meaning}", f"# TYPE {name} histogram")
        for labels, durations in found.items():
            running = 0
            bounds = (*map(str, BUCKETS_SECONDS), "+Inf")
            for bound, count in zip(bounds, durations.counts, strict=True):
                running += count
                yield f'{name}_bucket{{{labels},le="{bound}"}} {running}'
            yield f"{name}_sum{{{labels}}} {durations.seconds:.6f}"
            yield f"{name}_count{{{labels}}} {running}"


def _none() -> _Durations:
    return _Durations([0] * (len(BUCKETS_SECONDS) + 1))


def _states_facts(each: _Answered) -> bool:
    stating = each.route == "/v1/facts" and each.method in ("POST", "PUT")
    return each.status < 300 and (stating or each.route == "/v1/facts/batch")


def _reads_facts(each: _Answered) -> bool:
    return each.status < 300 and (
        (each.route == "/v1/facts" and each.method == "GET") or each.route == "/v1/recall"
    )


def _recalls(each: _Answered) -> bool:
    return each.status < 300 and each.route == "/v1/recall"
