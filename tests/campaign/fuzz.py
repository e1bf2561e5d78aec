"""Malformed bytes: readers of logs, peers, callers and files refuse them or read them.

Each reader has a small corpus below ``corpus/``; inputs come from changing, cutting, repeating and
joining it (``guided`` makes them by coverage). A reader may refuse only with its own errors.
"""

import random
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from engramlog.api.http.bodies import parse_body
from engramlog.api.http.errors import ApiError
from engramlog.api.schemas.facts import AssertRequest
from engramlog.api.schemas.recall import RecallBody
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.eventlog.codec import decode, header_hash
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Stored
from engramlog.projections.audit.sandbox import StatementRefused, check_statement
from engramlog.replay.federation.page import PageFault, decode_page

CORPUS = Path(__file__).parent / "corpus"
FOUND = "found-"
"""The name prefix of inputs that ``guided`` added because they reach other code; they may be
refused."""
SLOW_SECONDS = 2.0
"""A slower input is a fault: it costs its sender nothing."""
TOKENS = (
    b"\x00", b"\xff\xfe", b"\\u0000", b"\\ud800", b"[" * 2_000, b'{"a":' * 500, b"1e999", b"-0.0",
    b"99999999999999999999999", b"null", b'""', b"NaN", b"9999-12-31T23:59:60Z", b";", b"--", b"'",
    b" UNION SELECT 1", b"read_csv('/etc/passwd')", b"COPY", b"\xc4\xff\xff\xff\xff", b"\xdd\x7f",
)  # fmt: skip


class Target(Struct, frozen=True):
    """A reader: its corpus, and the errors that it may raise."""

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]


def _event(data: bytes) -> object:
    """An event whose hashes are right, as a hostile peer would send it."""
    header, _, payload = data.partition(b"\n--\n")
    erased = Stored(1, 1, 1, None, header, header_hash(header), None, None)
    known = decode(erased).header
    return decode(structs.replace(erased, salt=bytes(16), payload=payload), known)


def _statement(data: bytes) -> object:
    return check_statement(data.decode("utf-8", "replace"))


def _page(data: bytes) -> object:
    try:
        return decode_page(data).foreign()
    except PageFault:
        return decode_page(zlib.compress(data, 1)).foreign()  # its content is read as well


TARGETS = (
    Target("events", _event, (CorruptLog,)),
    Target("pages", _page, (PageFault,)),
    Target("facts", lambda data: parse_body(AssertRequest, data), (ApiError,)),
    Target("recalls", lambda data: parse_body(RecallBody, data), (ApiError,)),
    Target("lines", decode_line, (LineError,)),
    Target("statements", _statement, (StatementRefused,)),
)


def mutated(rng: random.Random, corpus: list[bytes]) -> bytes:
    """An input made from the corpus."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 1, 2, 8, 64)))
        match rng.randrange(6):
            case 0:
                data[at:end] = rng.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = rng.choice(TOKENS)
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 4:
                other = rng.choice(corpus)
                data[at:] = other[rng.randrange(len(other) + 1) :]
            case _:
                if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def run(count: int, seed: int) -> list[str]:
    """Run this many inputs per reader; returns the faults."""
    faults: list[str] = []
    for target in TARGETS:
        paths = sorted((CORPUS / target.name).iterdir())
        corpus = [path.read_bytes() for path in paths]
        rng = random.Random(f"{seed} {target.name}")
        read = 0
        for number in range(count):
            data = corpus[number] if number < len(corpus) else mutated(rng, corpus)
            fault, accepted = _tried(target, data)
            read += accepted
            if number < len(corpus) and not accepted and not paths[number].name.startswith(FOUND):
                fault = fault or "a text of the corpus is refused"
            if fault is not None:
                faults.append(f"{target.name}, seed {seed}, input {number} {data[:200]!r}: {fault}")
                if len(faults) > 20:
                    return faults
        print(f"  {target.name}: {count} inputs, {read} read, the others refused", flush=True)
    return faults


def _tried(target: Target, data: bytes) -> tuple[str | None, bool]:
    began = time.monotonic()
    try:
        target.read(data)
        accepted = True
    except target.refusals:
        accepted = False
    except Exception as fault:
        return f"raises {type(fault).__name__}: {fault}", False
    seconds = time.monotonic() - began
    return (f"takes {seconds:.1f} s" if seconds > SLOW_SECONDS else None), accepted


def make_corpus() -> None:
    """Write the binary parts of the corpus again: events and pages in today's format."""
    import tempfile

    from engramlog.eventlog.clock import FixedClock
    from engramlog.eventlog.engines.memory_log import MemoryLog
    from engramlog.eventlog.identity import Identity
    from engramlog.eventlog.signing import sign_heads
    from engramlog.replay.federation.page import StreamPage, encode_page
    from tests.worlds.samples import START_US, facts

    with tempfile.TemporaryDirectory() as folder:
        clock = FixedClock(START_US)
        identity = Identity.create(Path(folder) / "identity", clock)
        log = MemoryLog(identity.node_id, 1, clock)
        log.append(facts(3))
        stored = log.read_stored()
        for each in stored:
            path = CORPUS / "events" / f"fact-{each.position}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(each.header + b"\n--\n" + (each.payload or b""))
        (stream,) = log.stream_heads()
        statement = sign_heads(identity, log.head(), log.stream_heads(), START_US)
        rows = [(each.header, each.hash, each.salt, each.payload) for each in stored]
        page = StreamPage(1, stream, rows, statement, [])
        (CORPUS / "pages").mkdir(parents=True, exist_ok=True)
        (CORPUS / "pages" / "three-facts").write_bytes(encode_page(page))
        (CORPUS / "pages" / "inside").write_bytes(msgspec.msgpack.encode(page))
