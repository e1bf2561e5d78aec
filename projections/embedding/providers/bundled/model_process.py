"""The bundled model in a separate process, started for the first text, or ahead of it.

The model's products hold a core for milliseconds, and its Python holds the interpreter: in the
serving process both would delay writes and questions. Each node has one such process. It is
restarted when it dies or hangs, and ends when its socket closes.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import Pipe

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import ModelFileError, ProviderUnavailable
from engramlog.projections.embedding.providers.bundled.weights import check_installed
from engramlog.projections.embedding.providers.provider import PROBE_TEXT, Purpose, unit_rows
from engramlog.projections.library_threads import THREADS_OF_LIBRARIES

SERVER = "engramlog.projections.embedding.providers.bundled.model_server"
ANSWER_SECONDS_MAX: dict[Purpose, float] = {"query": 10.0, "document": 300.0}
"""From request to answer; the first includes loading the model (about 0.5 s)."""


class EmbeddingRequest(Struct, frozen=True):
    """Texts to embed. Requests are answered by number, questions first."""

    number: int
    purpose: Purpose
    texts: list[str]


class EmbeddingAnswer(Struct, frozen=True):
    """The rows of a request as float32, or the reason for their absence."""

    number: int
    rows: bytes
    fault: str | None = None


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(EmbeddingRequest).decode
_decode_answer = msgspec.msgpack.Decoder(EmbeddingAnswer).decode


class _ProcessEnded(ProviderUnavailable):
    """The process ended before it answered."""


class ModelProcess:
    """The provider: one model process. Safe from several threads."""

    def __init__(self, name: str, model: str, dimensions: int) -> None:
        self.name = name
        self.model = model
        self.dimensions = dimensions
        self._lock = threading.Lock()
        self._link: _Link | None = _ahead.pop(model, None)
        self._closed = False

    def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> F32:
        """See ``Provider``.

        A question is retried once if its process ends: it has no other attempt, and probably did
        not cause the end. Raises ModelFileError: the model's files are missing or not the right
        ones. ProviderUnavailable: the process died or does not answer; the next call starts
        another.
        """
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        try:
            answer = self._running().ask(purpose, list(texts))
        except _ProcessEnded:
            if purpose == "document":
                raise
            answer = self._running().ask(purpose, list(texts))
        if answer.fault is not None:
            raise ModelFileError(answer.fault)
        rows: F32 = np.frombuffer(answer.rows, dtype=np.float32)
        return unit_rows(rows.reshape(len(texts), -1), len(texts), self.dimensions)

    def start(self) -> None:
        """See ``Provider``."""
        if not self._running().answered:
            self.embed([PROBE_TEXT], "query")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._link is not None:
                self._link.close()

    def _running(self) -> "_Link":
        with self._lock:
            if self._closed:
                raise ProviderUnavailable("the embedding process was stopped")
            if self._link is None or not self._link.alive:
                if self._link is not None:
                    self._link.close()
                self._link = _Link(self.model)
            return self._link


@contextmanager
def started_ahead(model: str) -> Generator[None]:
    """Start a model's process now, for the ``ModelProcess`` that the ``with`` block will make: it
    loads meanwhile. One that is not needed ends with the block."""
    with suppress(ProviderUnavailable, ModelFileError):  # opening the model will tell
        check_installed()
        _ahead[model] = _Link(model)
    try:
        yield
    finally:
        left = _ahead.pop(model, None)
        if left is not None:
            left.close()


class _Link:
    """One process, its socket, and the thread that delivers its answers."""

    def __init__(self, model: str) -> None:
        here, there = Pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", SERVER, str(there.fileno()), model],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **dict.fromkeys(THREADS_OF_LIBRARIES, "1")},
            )
        except OSError as fault:
            here.close()
            raise ProviderUnavailable(f"the embedding process cannot start: {fault}") from fault
        finally:
            there.close()
        self.alive = True
        self._answers = 0
        self._connection = here
        self._sending = threading.Lock()
        self._numbers = count(1)
        self._waiting: dict[int, Future[EmbeddingAnswer]] = {}
        self._thread = threading.Thread(target=self._receive, name="embedding answers", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as fault:
            here.close()
            self._process.kill()
            self._process.wait()
            raise ProviderUnavailable(f"the embedding process is not heard: {fault}") from fault

    @property
    def answered(self) -> bool:
        return self._answers > 0

    def ask(self, purpose: Purpose, texts: list[str]) -> EmbeddingAnswer:
        """The answer to a request. Raises ProviderUnavailable."""
        found: Future[EmbeddingAnswer] = Future()
        before = self._answers
        with self._sending:
            number = next(self._numbers)
            self._waiting[number] = found
            try:
                self._connection.send_bytes(encode(EmbeddingRequest(number, purpose, texts)))
            except OSError as fault:
                self.alive = False  # a retry may come before the other thread notices
                self._waiting.pop(number, None)
                raise _ProcessEnded("the embedding process ended") from fault
        if not self.alive:  # it may have ended after the last check of waiting requests
            self._fail_waiting()
        try:
            return found.result(ANSWER_SECONDS_MAX[purpose])
        except TimeoutError as fault:
            loaded = self.answered or purpose == "document"  # loading may outlast a question
            if loaded and self._answers == before:
                self.alive = False
            raise ProviderUnavailable("the embedding process does not answer") from fault
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """End the process. Idempotent."""
        self.alive = False
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _receive(self) -> None:
        try:
            while True:
                answer = _decode_answer(self._connection.recv_bytes())
                self._answers += 1
                found = self._waiting.get(answer.number)
                if found is not None:
                    found.set_result(answer)
        except (OSError, EOFError, msgspec.MsgspecError):
            pass
        self.alive = False
        self._connection.close()
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        for found in list(self._waiting.values()):
            with suppress(InvalidStateError):  # answered, or failed by the other thread
                found.set_exception(_ProcessEnded("the embedding process ended"))


_ahead: dict[str, _Link] = {}
"""Processes of ``started_ahead``, by model, until they are taken."""
