"""A page of one stream in transit between peers: whole events, and the sender's signed head."""

import zlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engramlog.eventlog.event import Foreign
from engramlog.eventlog.signing import SignedHeads
from engramlog.projections.moment import format_instant

PAGE_FORMAT = 1
PAGE_EVENTS_MAX = 2_000
PAGE_BYTES = 4 * 1024 * 1024
"""A page holds this much, headers and payloads; a larger event is a page alone."""
PAGE_BYTES_MAX = 64 * 1024 * 1024
"""A larger page is refused, however well it compresses."""
COMPRESSION_LEVEL = 1

Row = tuple[bytes, bytes, bytes | None, bytes | None]
"""The fields of ``Foreign``, in order."""


class PageFault(Exception):
    """A page cannot be appended. ``code`` gives the reason in one word."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class AnotherNode(PageFault):
    """Another node than the peer has signed: the peer's address leads to it."""


class Awaited(Exception):
    """The stream is not at fault; it continues once something has arrived. The message says
    what."""


class ClockAwaited(Awaited):
    """An event comes from the near future. The ``fitting`` events before it may be taken now, and
    the event itself from ``due_us`` (microseconds) on."""

    def __init__(self, where: str, fitting: int, due_us: int) -> None:
        due = f"{format_instant(due_us)[:19]}Z"
        super().__init__(
            f"{where}: its clock is ahead of ours: correct the wrong clock; it is taken at {due}"
        )
        self.fitting = fitting
        self.due_us = due_us


class StreamPage(Struct, frozen=True, array_like=True):
    """Events of ``stream`` after a sequence; ``statement`` signs the last of them. ``erased``: ids
    of events without payload, because an erasure names them."""

    format: int
    stream: str
    events: Annotated[list[Row], Meta(max_length=PAGE_EVENTS_MAX)]
    statement: SignedHeads
    erased: Annotated[list[bytes], Meta(max_length=PAGE_EVENTS_MAX)]

    def foreign(self) -> tuple[Foreign, ...]:
        """The events."""
        return tuple(Foreign(*row) for row in self.events)


def encode_page(page: StreamPage) -> bytes:
    """The bytes of a page: zlib over MessagePack."""
    return zlib.compress(msgspec.msgpack.encode(page), COMPRESSION_LEVEL)


def decode_page(data: bytes) -> StreamPage:
    """A page from its bytes. Raises PageFault ``malformed`` or ``oversized``. The lengths of lists
    are checked before their entries are decoded: a small page may compress millions."""
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, PAGE_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise PageFault("oversized", f"the page is over {PAGE_BYTES_MAX} bytes")
        if not unpacker.eof:
            raise PageFault("malformed", "the page is cut off")
        page = msgspec.msgpack.decode(plain, type=StreamPage)
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        code = "oversized" if "of length <=" in str(fault) else "malformed"
        raise PageFault(code, f"the page cannot be read: {fault}") from fault
    if page.format != PAGE_FORMAT:
        raise PageFault("malformed", f"the page has format {page.format}, not {PAGE_FORMAT}")
    return page
