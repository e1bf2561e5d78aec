"""Shared by the HTTP providers: splitting texts into requests, and joining the answers."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import BadAnswer
from engramlog.projections.embedding.providers.http import HttpClient
from engramlog.projections.embedding.providers.models import ModelCard
from engramlog.projections.embedding.providers.provider import Purpose, unit_rows


class RequestLimits(Struct, frozen=True):
    """A provider's limits: texts and UTF-8 bytes per request, bytes per text (the rest of a longer
    text is not embedded), and requests at a time. A text never has more tokens than bytes, so
    limits in bytes respect limits stated in tokens."""

    request_texts: int
    request_bytes: int
    text_bytes: int
    at_once: int


class Dialect(Struct, frozen=True, kw_only=True):
    """The API of one provider. ``key_variable``: the environment's name of its key, if it has one.
    ``vectors`` raises BadAnswer or msgspec.DecodeError."""

    url: str
    key_variable: str | None = None
    path: str
    body: Callable[[str, Sequence[str], Purpose], object]
    vectors: Callable[[bytes], Sequence[Sequence[float]]]
    limits: RequestLimits


class RemoteProvider:
    """A provider behind an HTTP API."""

    def __init__(
        self, name: str, model: str, card: ModelCard, dialect: Dialect, client: HttpClient
    ) -> None:
        self.name = name
        self.model = model
        self.dimensions = card.dimensions
        self._card = card
        self._dialect = dialect
        self._client = client
        self._pool = ThreadPoolExecutor(dialect.limits.at_once, thread_name_prefix=f"{name}-embed")

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        """See ``Provider``. Sends requests in parallel; the first failure decides."""
        prefix = self._card.prefix(purpose)
        sent = [_truncate_text(prefix + text, self._dialect.limits.text_bytes) for text in texts]
        requests = list(_requests(sent, self._dialect.limits))
        if not requests:
            return np.empty((0, self.dimensions), dtype=np.float32)
        if len(requests) == 1:
            return self._ask(requests[0], purpose)
        answers = [self._pool.submit(self._ask, request, purpose) for request in requests]
        try:
            return np.concatenate([answer.result() for answer in answers])
        finally:
            for answer in answers:
                answer.cancel()

    def start(self) -> None:
        """Does nothing: the model runs elsewhere."""

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def _ask(self, texts: Sequence[str], purpose: Purpose) -> F32:
        dialect = self._dialect
        body = self._client.post(dialect.path, dialect.body(self.model, texts, purpose), purpose)
        try:
            vectors = dialect.vectors(body)
        except (BadAnswer, msgspec.DecodeError) as fault:
            raise BadAnswer(f"{self.name}: {fault}") from fault
        return unit_rows(matrix(vectors), len(texts), self.dimensions)


def matrix(rows: Sequence[Sequence[float]]) -> F32:
    """Rows of numbers as an array; of shape (n, 0) if their lengths differ."""
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        return np.empty((len(rows), 0), dtype=np.float32)
    # A number beyond float32 becomes infinite, which the check of the rows reports.
    with np.errstate(over="ignore"):
        return np.array(rows, dtype=np.float64).astype(np.float32)


def _truncate_text(text: str, bytes_max: int) -> str:
    """The start of a text; a blank one becomes a full stop, because none may be empty."""
    text = text if text.strip() else "."
    data = text.encode()
    return text if len(data) <= bytes_max else data[:bytes_max].decode("utf-8", "ignore")


def _requests(texts: Sequence[str], limits: RequestLimits) -> Iterator[list[str]]:
    request: list[str] = []
    size = 0
    for text in texts:
        weight = len(text.encode())
        full = len(request) == limits.request_texts or size + weight > limits.request_bytes
        if request and full:
            yield request
            request, size = [], 0
        request.append(text)
        size += weight
    if request:
        yield request
