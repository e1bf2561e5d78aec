"""Pages of the log in transit from a primary to its replicas: whole events, as stored."""

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import KeyCopy, WholeLog

PAGE_FORMAT = 1
PAGE_EVENTS_MAX = 10_000
PAGE_BYTES = 8 * 1024 * 1024
"""Where a page ends, to within one step of reading."""
PAGE_BYTES_MAX = 1024 * 1024 * 1024
"""A larger page is refused unread: one step of the largest events is far smaller."""
FIRST_STEP_EVENTS = 10
STEP_EVENTS_MAX = 500
"""Events read at a time: few at first, then as many of the same size as the page has room for."""
COMPRESSION_LEVEL = 1

Row = tuple[int, int, int, str | None, bytes, bytes, bytes | None, bytes | None]
"""The fields of ``Stored``, in order."""


class ReplicationError(EventLogError):
    """The answer is not a page of the log that this replica copies."""


class Diverged(ReplicationError):
    """The primary's log lacks events that the replica has: their histories differ."""


class CopyPage(Struct, frozen=True, array_like=True):
    """Events after a position, and the primary's head. ``head``: the primary's last position.
    ``now_us``: its clock. ``node_id`` and ``public_key`` (base64): the log's node."""

    format: int
    node_id: str
    public_key: str
    head: int
    now_us: int
    events: list[Row]
    keys: list[KeyCopy]

    def stored(self) -> list[Stored]:
        """The events as stored in the log."""
        return [Stored(*row) for row in self.events]


def read_page(
    log: WholeLog,
    *,
    after: int,
    after_hash: bytes,
    limit: int,
    node_id: str,
    public_key: str,
    now_us: int,
) -> CopyPage:
    """The events after ``after`` (at most ``limit``). Raises Diverged: the event at ``after`` is
    missing, or has another hash than ``after_hash``."""
    check_agreement(log, after, after_hash)
    events: list[Stored] = []
    size, place = 0, after
    while len(events) < limit and size < PAGE_BYTES:
        fitting = (PAGE_BYTES - size) * len(events) // size if events else FIRST_STEP_EVENTS
        count = max(1, min(fitting, STEP_EVENTS_MAX, limit - len(events)))
        step = log.read_stored(place, count)
        if not step:
            break
        events += step
        place = step[-1].position
        size += sum(len(each.header) + len(each.payload or b"") for each in step)
    head = max(log.head().position, place)
    rows = [astuple(each) for each in events]
    return CopyPage(PAGE_FORMAT, node_id, public_key, head, now_us, rows, log.keys_of(events))


def check_agreement(log: WholeLog, position: int, event_hash: bytes) -> None:
    """Raises Diverged unless this log's event at ``position`` has that hash."""
    if position == 0:
        return
    found: Sequence[Stored] = log.read_stored(position - 1, 1)
    if not found:
        raise Diverged(
            f"this log ends at position {log.head().position}, before the replica's {position}"
        )
    if found[0].hash != event_hash:
        raise Diverged(f"position {position} holds another event here than in the replica")


def encode_page(page: CopyPage) -> bytes:
    """The bytes of a page: zlib over MessagePack."""
    return zlib.compress(msgspec.msgpack.encode(page), COMPRESSION_LEVEL)


def decode_page(data: bytes) -> CopyPage:
    """A page from its bytes. Raises ReplicationError."""
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, PAGE_BYTES_MAX)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ReplicationError("the page is cut off, or larger than any page may be")
        page = msgspec.msgpack.decode(plain, type=CopyPage)
    except (zlib.error, ValueError) as fault:
        raise ReplicationError(f"the page cannot be read: {fault}") from fault
    if page.format != PAGE_FORMAT:
        raise ReplicationError(f"the page has format {page.format}, not {PAGE_FORMAT}")
    return page
