"""Parquet files of consecutive events: DuckDB writes them, their description shows any change."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.eventlog.chain import link_fault
from engramlog.eventlog.codec import header_of
from engramlog.eventlog.durable_file import digest_of, sync_file, sync_folder
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import StreamHead
from engramlog.projections.archive.duck import database, literal
from engramlog.projections.archive.rows import COLUMNS, row_of

ROW_GROUP = 16_384
_READ_BYTES = 1 << 20
_COPY = (
    "COPY (SELECT * FROM read_json({lines}, format='newline_delimited', columns={columns},"
    " maximum_object_size=67108864) ORDER BY position) TO {target}"
    f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
)


class Tip(Struct, frozen=True, array_like=True):
    """The state of a stream: its last sequence number and hash (hex)."""

    stream_seq: int
    hash: str


class Segment(Struct, frozen=True):
    """A sealed file: positions ``first`` to ``last``, its bytes, and the state of every stream
    after its last event."""

    name: str
    first: int
    last: int
    bytes: int
    sha256: str
    tips: dict[str, Tip]


def write_segment(folder: Path, events: Sequence[Stored], tips: dict[str, Tip]) -> Segment:
    """Verify events against the chain and write them as one file, durably. ``events``: consecutive
    positions, at least one. ``tips``: the state of every stream before them. Raises CorruptLog: an
    event does not continue its stream."""
    after = verified_tips(events, tips)
    first, last = events[0].position, events[-1].position
    name = f"events-{first:012d}-{last:012d}.parquet"
    target = folder / name
    staged = folder / f"{name}.next"
    write_parquet(staged, events)
    sync_file(staged)
    os.replace(staged, target)
    sync_folder(folder)
    digest, size = digest_of(target)
    return Segment(name, first, last, size, digest, after)


def write_parquet(target: Path, events: Sequence[Stored]) -> None:
    """The rows of events as a Parquet file; not yet durable."""
    lines = target.with_name(target.name + ".ndjson")
    encoder = msgspec.json.Encoder()
    try:
        with lines.open("wb") as out:
            for event in events:
                out.write(encoder.encode(row_of(event)))
                out.write(b"\n")
        statement = _COPY.format(
            lines=literal(str(lines)), columns=_struct(COLUMNS), target=literal(str(target))
        )
        with database() as db:
            db.execute(statement)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        lines.unlink(missing_ok=True)


def verified_tips(events: Sequence[Stored], tips: dict[str, Tip]) -> dict[str, Tip]:
    """The state of every stream after ``events``. Raises CorruptLog."""
    heads = {
        stream: StreamHead(stream, tip.stream_seq, bytes.fromhex(tip.hash))
        for stream, tip in tips.items()
    }
    for event in events:
        header = header_of(event)
        # The erasure justifies an erased payload; here it is only absent.
        reason = link_fault(heads.get(header.stream), event, header, erasable=True)
        if reason is not None:
            raise CorruptLog(event.position, reason)
        heads[header.stream] = StreamHead(header.stream, header.stream_seq, event.hash)
    return {name: Tip(head.stream_seq, head.hash.hex()) for name, head in heads.items()}


def segment_fault(folder: Path, segment: Segment) -> str | None:
    """The fault of a sealed file, if any."""
    path = folder / segment.name
    try:
        digest, size = digest_of(path)
    except FileNotFoundError:
        return f"{segment.name} is missing"
    if size != segment.bytes:
        return f"{segment.name} has {size} bytes, {segment.bytes} were sealed"
    if digest != segment.sha256:
        return f"{segment.name} is not what was sealed: its sha256 differs"
    return None


def _struct(columns: dict[str, str]) -> str:
    return "{" + ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items()) + "}"
