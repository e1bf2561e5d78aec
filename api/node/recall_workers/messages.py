"""What the serving process and a recall worker say to each other over their socket.

Each message is MessagePack behind four bytes of length. The worker speaks first (``WorkerReady``),
then answers every ``Question`` in turn; before it does, it may ask for vectors of texts
(``Wanted``), for it has no model. Vectors of facts come without being asked for.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.http.auth import Caller
from engramlog.api.schemas.recall import Shape

LENGTH_BYTES = 4


class Question(Struct, frozen=True, tag=True):
    """A recall, with its moment.

    Attributes:
        body: the fields of the request that were sent.
        position: what the serving process had published; the worker must know as much.
        now_us: the clock, microseconds.
    """

    body: dict[str, Any]
    warnings: list[str]
    shape: Shape
    caller: Caller
    position: int
    now_us: int


class Embedded(Struct, frozen=True, tag=True):
    """Vectors of facts, by the int64 positions that asserted them: an erased fact leaves a slot
    in the process that knew it, and none in one that did not. As many float32 rows."""

    positions: bytes
    rows: bytes


class Forgotten(Struct, frozen=True, tag=True):
    """Facts whose vectors are gone: int64 positions."""

    positions: bytes


class Vector(Struct, frozen=True, tag=True):
    """The vector of a text that was wanted as float32; None if there is none to be had."""

    text: str
    row: bytes | None


class WorkerReady(Struct, frozen=True, tag=True):
    """The worker has loaded everything."""


class Wanted(Struct, frozen=True, tag=True):
    """The vector of this text is needed for the answer."""

    text: str


class Found(Struct, frozen=True, tag=True):
    """The answer to a question."""

    answered: RecallOutcome


class Failed(Struct, frozen=True, tag=True):
    """An answer that is an error: its status, headers and JSON."""

    status: int
    headers: dict[str, str]
    detail: Any
    extra: dict[str, Any]


ToWorker = Question | Vector | Embedded | Forgotten
FromWorker = WorkerReady | Wanted | Found | Failed

_encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def framed(message: ToWorker | FromWorker) -> bytes:
    """A message with its length before it."""
    data = _encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
