"""Counters and latencies of this process, in the Prometheus text format.

Label values are route patterns, methods and statuses only: never ids, entities or queries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Sample = tuple[str, str, str, float]
"""A gauge: name, help, labels (``{a="b"}`` or empty), value."""


class Metrics:
    """Requests by route, method and status, with a latency histogram a route."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (route, method, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        counts = self._buckets.setdefault(route, [0] * (len(BUCKETS_SECONDS) + 1))
        counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def render(self, gauges: Iterable[Sample]) -> str:
        """The exposition text: our counters, then the gauges given."""
        lines = [
            "# HELP engramlog_http_requests_total Requests answered.",
            "# TYPE engramlog_http_requests_total counter",
        ]
        for (route, method, status), count in sorted(self._requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            lines.append(f"engramlog_http_requests_total{{{labels}}} {count}")
        lines += self._histogram()
        seen: set[str] = set()
        for name, meaning, labels, value in gauges:
            if name not in seen:
                seen.add(name)
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines.append(f"{name}{labels} {value:.17g}")
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "engramlog_http_request_seconds"
        lines = [f"# HELP {name} Time to answer.", f"# TYPE {name} histogram"]
        for route, counts in sorted(self._buckets.items()):
            running = 0
            for bound, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), counts, strict=True):
                running += count
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {running}')
            lines.append(f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {running}')
        return lines
