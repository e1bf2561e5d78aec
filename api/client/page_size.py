"""How many events to ask for at once over a link that may not carry a whole page."""

from collections.abc import Callable
from typing import TypeVar

from engramlog.projections.http_exchange import AnswerCut, AnswerSlow

Page = TypeVar("Page")


class PageSize:
    """At first ``most`` events, half as many after each page that was cut, slowly more again after
    each that came: a link that is bad now may carry more later."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._events = most

    def fetched(self, limit: int, fetch: Callable[[int], Page]) -> Page:
        """A page of at most ``limit`` events that the link carries. Raises what ``fetch`` raises;
        from AnswerCut only if not even one event came, or, for the caller to report it, too
        slowly."""
        while True:
            size = min(limit, self._events)
            try:
                page = fetch(size)
            except Exception as fault:
                if not isinstance(fault.__cause__, AnswerCut):
                    raise
                self._events = max(1, size // 2)
                if size == 1 or isinstance(fault.__cause__, AnswerSlow):
                    raise
            else:
                self._events = min(self._most, self._events + self._events // 8 + 1)
                return page
