"""The messages between the serving process and a recall worker.

Each message is MessagePack after its length in four bytes. The worker begins (``WorkerReady``),
then answers each ``Question`` in turn. It has no model: before an answer it may request vectors of
texts (``Wanted``). Vectors of facts arrive without a request.
"""

from typing import Any

import msgspec
from msgspec import Struct

from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.http.auth import Caller
from engramlog.api.schemas.recall import Shape

LENGTH_BYTES = 4


class Question(Struct, frozen=True, tag=True):
    """A recall, with its moment.

    Attributes: body: the fields that the request has.
        position: the serving process's published position, which the worker must reach first.
        now_us: the clock, microseconds.
    """

    body: dict[str, Any]
    warnings: list[str]
    shape: Shape
    caller: Caller
    position: int
    now_us: int


class Embedded(Struct, frozen=True, tag=True):
    """Vectors of facts, by the int64 positions that asserted them. Slots do not match between
    processes: an erased fact keeps its slot only in a process that knew the fact. One float32 row
    per position."""

    positions: bytes
    rows: bytes


class Forgotten(Struct, frozen=True, tag=True):
    """Facts that lost their vectors: int64 positions."""

    positions: bytes


class Vector(Struct, frozen=True, tag=True):
    """The requested vector of a text as float32; None if the model is not available."""

    text: str
    row: bytes | None


class WorkerReady(Struct, frozen=True, tag=True):
    """The worker has loaded everything."""


class Wanted(Struct, frozen=True, tag=True):
    """The answer needs the vector of this text."""

    text: str


class Found(Struct, frozen=True, tag=True):
    """The answer to a question."""

    answered: RecallOutcome


class Failed(Struct, frozen=True, tag=True):
    """An error as the answer: its status, headers and JSON."""

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
    """A message after its length."""
    data = _encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
