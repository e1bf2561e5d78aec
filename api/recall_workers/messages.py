"""What the serving process and a recall worker say to each other over their socket.

Each message is MessagePack behind four bytes of length. The worker speaks first (``Ready``),
then answers every ``Question`` in turn; vectors come without being asked for.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from api.auth import Caller
from api.commands.answering import Answered

LENGTH_BYTES = 4


class Question(Struct, frozen=True, tag=True):
    """A recall, with the moment it is asked at.

    Attributes:
        body: the fields of the request that were sent.
        position: what the serving process had published; the worker must know as much.
        now_us: the clock, microseconds.
        vector: of the query as float32, where it is known already.
    """

    body: dict[str, Any]
    warnings: list[str]
    legacy: bool
    caller: Caller
    position: int
    now_us: int
    vector: bytes | None


class Embedded(Struct, frozen=True, tag=True):
    """Vectors of facts, by the int64 positions that asserted them: an erased fact leaves a slot
    in the process that knew it, and none in one that did not. As many float32 rows."""

    positions: bytes
    rows: bytes


class Forgotten(Struct, frozen=True, tag=True):
    """Facts whose vectors are gone: int64 positions."""

    positions: bytes


class Ready(Struct, frozen=True, tag=True):
    """The worker has loaded everything."""


class Found(Struct, frozen=True, tag=True):
    """The answer to a question, and the query's vector if the worker had to make it."""

    answered: Answered
    vector: bytes | None


class Failed(Struct, frozen=True, tag=True):
    """An answer that is an error: its status, headers and JSON."""

    status: int
    headers: dict[str, str]
    detail: Any
    extra: dict[str, Any]


ToWorker = Question | Embedded | Forgotten
FromWorker = Ready | Found | Failed

_encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def framed(message: ToWorker | FromWorker) -> bytes:
    """A message with its length before it."""
    data = _encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
