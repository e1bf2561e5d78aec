"""Quotas per principal: the reads and writes that a key's entity has left (wire 4).

A bucket of tokens per (principal, dimension) holds an hour's worth and refills evenly. A request
passes if it gets a token. A batch pays for each of its items, on credit if necessary: any batch can
pass, and none is cheaper than single writes.
"""

import math
from collections.abc import Callable
from time import monotonic
from typing import Literal, TypeAlias

from engramlog.api.http.error_codes import STATUS_BY_CODE
from engramlog.api.http.errors import ApiError

Dimension: TypeAlias = Literal["read", "write"]
HOUR_S = 3600.0

ROUNDING = 1e-9
"""The possible loss in sums of seconds: a caller who waited as instructed gets a whole token."""


class Quotas:
    """The buckets, in memory: after a restart they are full. For use within one event loop.

    Args: reads, writes: requests per hour; 0: no limit.
        now_s: a monotonic clock in seconds.

    Attributes: refused: how many requests failed.
    """

    def __init__(
        self, reads: int = 0, writes: int = 0, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._rates: dict[Dimension, int] = {"read": reads, "write": writes}
        self.refused: dict[Dimension, int] = {"read": 0, "write": 0}
        self._now_s = now_s
        self._buckets: dict[tuple[str, Dimension], tuple[float, float]] = {}
        """Tokens, and the time of their count."""

    def take(self, principal: str, dimension: Dimension) -> None:
        """Let one request pass. Raises ApiError 429 ``quota_exceeded`` with the seconds to wait."""
        rate = self._rates[dimension]
        if not rate:
            return
        tokens = self._tokens(principal, dimension, rate)
        if tokens < 1.0 - ROUNDING:
            self.refused[dimension] += 1
            raise _exceeded(principal, dimension, (1.0 - tokens) * HOUR_S / rate)
        self._buckets[principal, dimension] = (tokens - 1.0, self._now_s())

    def charge(self, principal: str, writes: int) -> None:
        """Charge a passed request for its further writes."""
        rate = self._rates["write"]
        if rate and writes > 0:
            tokens = self._tokens(principal, "write", rate)
            self._buckets[principal, "write"] = (tokens - writes, self._now_s())

    def _tokens(self, principal: str, dimension: Dimension, rate: int) -> float:
        tokens, at_s = self._buckets.get((principal, dimension), (float(rate), 0.0))
        return min(float(rate), tokens + (self._now_s() - at_s) * rate / HOUR_S)


def dimension_of(method: str, permission: str) -> Dimension:
    """A route's dimension: queries count as reads, with any method."""
    asks = method == "GET" or permission in ("read", "audit.read")
    return "read" if asks else "write"


def _exceeded(principal: str, dimension: Dimension, wait_s: float) -> ApiError:
    seconds = max(1, math.ceil(wait_s))
    code = "quota_exceeded"
    message = f"too many {dimension}s within an hour; try again in {seconds} s"
    return ApiError(
        STATUS_BY_CODE[code],
        {"code": code, "message": message},
        headers={"Retry-After": str(seconds)},
        extra={
            "error": code,
            "dimension": f"fact_{dimension}",
            "principal": principal,
            "retry_after": seconds,
        },
    )
