"""A recall worker: a process that follows a node's files and answers questions.

``pool`` starts it with one end of a socket; it ends when the other end closes.
"""

import json
import logging
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue

import numpy as np
from msgspec import Struct

from engramlog.api.answers.chain_proof import FactChains
from engramlog.api.commands.recall.answering import answered
from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.http.errors import ApiError
from engramlog.api.node.process.error_log import start_logging
from engramlog.api.node.process.process_tuning import take_short_turns
from engramlog.api.node.reading_node import ReadingNode
from engramlog.api.node.recall_workers.follower import LogFollower
from engramlog.api.node.recall_workers.messages import (
    LENGTH_BYTES,
    Embedded,
    Failed,
    Forgotten,
    Found,
    FromWorker,
    Question,
    Vector,
    Wanted,
    WorkerReady,
    decode_to_worker,
    framed,
)
from engramlog.api.node.service import STAGE_THREADS, ReadingService
from engramlog.api.schemas.recall import RecallBody
from engramlog.api.settings import Settings
from engramlog.eventlog.struct_types import complete_struct_types
from engramlog.projections.arrays import F32
from engramlog.projections.cards.source import CardSource, PastCards
from engramlog.projections.embedding.errors import ProviderUnavailable

NICENESS = 5
"""If all cores are busy, writes come first: agents wait for durable writes, and workers have to
follow each write too."""

VECTOR_SECONDS_MAX = 15.0
"""The serving process gives up sooner and sends None."""

_log = logging.getLogger(__name__)


def run(handle: int) -> int:
    """Serve one socket until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the serving process ends this one
    os.nice(NICENESS)
    link = _Link(socket.socket(fileno=handle))
    first = link.received()
    if first is None:
        return 0
    settings = Settings(**json.loads(first))
    start_logging(settings.log_level, settings.log_format)
    complete_struct_types()
    take_short_turns()
    follower = LogFollower(settings.data_dir, settings.embedding, link.vector, settings.log)
    node = follower.node
    stages = ThreadPoolExecutor(STAGE_THREADS, thread_name_prefix="stage")
    service = _Following(node, settings, PastCards(node.reader.rows), FactChains(), stages)
    with suppress(ConnectionError):  # the node has gone; nothing will be received
        link.send(WorkerReady())
    # One thread takes questions and vectors of facts in order; this one receives the vectors that a
    # question waits for.
    with ThreadPoolExecutor(1) as taking:
        while (data := link.received()) is not None:
            message = decode_to_worker(data)
            if isinstance(message, Vector):
                link.vectors.put(message)
            else:
                taking.submit(_take, link, follower, service, message)
    return 0


class _Following(Struct, frozen=True):
    """Implements ``ReadingService``."""

    node: ReadingNode
    settings: Settings
    cards: CardSource
    chains: FactChains
    stage_pool: ThreadPoolExecutor


class _Link:
    """The socket to the serving process. One thread receives, any may send."""

    def __init__(self, link: socket.socket) -> None:
        self.vectors: SimpleQueue[Vector] = SimpleQueue()
        self._socket = link
        self._arriving = link.makefile("rb")
        self._sending = threading.Lock()
        self._wanting = threading.Lock()

    def send(self, message: FromWorker) -> None:
        with self._sending:
            self._socket.sendall(framed(message))

    def received(self) -> bytes | None:
        """The next message; None after the other end has closed."""
        length = int.from_bytes(self._arriving.read(LENGTH_BYTES), "big")
        data = self._arriving.read(length)
        return data if 0 < length == len(data) else None

    def vector(self, text: str) -> F32:
        """The vector of a question's text. Raises ProviderUnavailable."""
        with self._wanting:
            self.send(Wanted(text))
            try:
                while (arrived := self.vectors.get(timeout=VECTOR_SECONDS_MAX)).text != text:
                    pass  # its recall did not wait for the vector
            except Empty:
                raise ProviderUnavailable("no vector came in time") from None
        if arrived.row is None:
            raise ProviderUnavailable("the serving process has no vector")
        return np.frombuffer(arrived.row, dtype=np.float32)

    def close(self) -> None:
        """End both directions: the receiving thread, and with it the process, ends."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _take(
    link: _Link,
    follower: LogFollower,
    service: ReadingService,
    message: Question | Embedded | Forgotten,
) -> None:
    try:
        if isinstance(message, Embedded):
            follower.embedded(message.positions, message.rows)
        elif isinstance(message, Forgotten):
            follower.forgotten(message.positions)
        else:
            link.send(_answer(follower, service, message))
    except BaseException:
        _log.exception("the recall worker ends")
        logging.shutdown()  # before the node notices and kills this process
        link.close()
        raise


def _answer(follower: LogFollower, service: ReadingService, question: Question) -> FromWorker:
    try:
        follower.follow(question.position, question.now_us)
        context = ReadingContext(service, question.caller)
        body = RecallBody.model_validate(question.body)
        return Found(answered(context, body, question.warnings, shape=question.shape))
    except ApiError as fault:
        return Failed(fault.status, fault.headers, fault.detail, fault.extra)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1])))
