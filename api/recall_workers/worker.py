"""A recall worker: a process that follows a node's files and answers questions.

Started by ``pool`` with one end of a socket; it ends when the other end is closed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from typing import cast

from aiohttp import web

from api.app import create_service
from api.call import Call, Service
from api.commands.answering import answered
from api.errors import ApiError
from api.recall_workers.follower import Follower
from api.recall_workers.messages import (
    LENGTH_BYTES,
    Embedded,
    Failed,
    Forgotten,
    Found,
    FromWorker,
    Question,
    Ready,
    decode_to_worker,
    framed,
)
from api.schemas.recall import RecallBody
from api.settings import Settings
from api.turns import take_short_turns

NICENESS = 5
"""Where all cores are taken, writes come first: an agent waits for its write to be durable, and
a worker also follows every write."""

_log = logging.getLogger(__name__)


def run(handle: int) -> int:
    """Serve one socket until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the serving process says when to end
    os.nice(NICENESS)
    link = socket.socket(fileno=handle)
    first = _received(link)
    if first is None:
        return 0
    settings = Settings(**json.loads(first))
    take_short_turns()
    follower = Follower(settings.data_dir, settings.embedding)
    service = create_service(follower.node, settings)
    link.sendall(framed(Ready()))
    while (data := _received(link)) is not None:
        message = decode_to_worker(data)
        if isinstance(message, Embedded):
            follower.embedded(message.positions, message.rows)
        elif isinstance(message, Forgotten):
            follower.forgotten(message.positions)
        else:
            link.sendall(framed(_answer(follower, service, message)))
    return 0


def _answer(follower: Follower, service: Service, question: Question) -> FromWorker:
    try:
        follower.follow(question.position, question.now_us)
        query = str(question.body["query"])
        if question.vector is not None:
            follower.remember(query, question.vector)
        # The request itself stayed with the serving process: a recall does not look at it.
        call = Call(cast("web.Request", None), service, question.caller)
        body = RecallBody.model_validate(question.body)
        found = answered(call, body, question.warnings, legacy=question.legacy)
        return Found(found, None if question.vector is not None else follower.vector(query))
    except ApiError as fault:
        return Failed(fault.status, fault.headers, fault.detail, fault.extra)


def _received(link: socket.socket) -> bytes | None:
    """The next message; None once the other end is closed."""
    length = _exactly(link, LENGTH_BYTES)
    return None if length is None else _exactly(link, int.from_bytes(length, "big"))


def _exactly(link: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = link.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1])))
