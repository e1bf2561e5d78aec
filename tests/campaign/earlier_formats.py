"""Events in earlier releases' formats: of each kind and version, in a log of today."""

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from unittest import mock

from engramlog.eventlog import chain
from engramlog.eventlog.codec import decode_payload
from engramlog.eventlog.engines import appending
from engramlog.eventlog.event import NODE_STREAM, Draft, Header, fact_partition
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import KINDS, REPLICATED, SCHEMA_VERSIONS, FactAsserted, Payload
from engramlog.eventlog.log import EventLog
from tests.worlds.processes import ROOT

VERSIONS = ROOT / "fixtures" / "versions"
GOLDEN = ROOT / "fixtures" / "events"
Written = tuple[str, int]
"""A kind and the version in which an event was written."""


@contextmanager
def writing_as(version: int, written: Sequence[tuple[Draft, bytes]]) -> Generator[None]:
    """Appends write these payloads' bytes under an earlier version."""
    encoded = {draft.event_id: data for draft, data in written}
    with (
        mock.patch.object(
            appending, "_encoded", lambda drafts: [encoded[draft.event_id] for draft in drafts]
        ),
        mock.patch.object(chain, "kind_and_version", lambda draft: (_kind(draft), version)),
    ):
        yield


def _kind(draft: Draft) -> str:
    return str(draft.payload.__struct_config__.tag)


def written_in(log: EventLog) -> set[Written]:
    """The kinds and versions of which a log has an event."""
    return {(event.kind, event.header.schema_version) for event in log.iterate(0)}


def never_written(found: set[Written]) -> list[str]:
    """Kinds and versions of the registry that a log lacks."""
    every = {(kind, n) for kind in KINDS for n in range(1, SCHEMA_VERSIONS[kind] + 1)}
    return sorted(f"{kind} version {version}" for kind, version in every - found)


def append_golden(log: EventLog) -> None:
    """One event of each kind and version that the log lacks, from the golden files."""
    found = written_in(log)
    ids = IdentifierSource(log.origin)
    for kind, current in SCHEMA_VERSIONS.items():
        for version in range(1, current + 1):
            if (kind, version) not in found:
                data = _golden(kind, version)
                payload = _read(kind, version, data)
                draft = Draft(payload, _place(kind, data), ids.next(_now_us()), "agent:earlier")
                with writing_as(version, [(draft, data)]):
                    log.append([draft])


def append_facts(
    log: EventLog, version: int, facts: Sequence[FactAsserted], ids: IdentifierSource
) -> None:
    """Plain facts in an earlier version; the bytes are the same in each."""
    encode = appending.encode_payload
    made = [
        Draft(
            fact,
            fact_partition(fact.scope, None),
            ids.next(_now_us()),
            "agent:earlier",
        )
        for fact in facts
    ]
    written = [(draft, encode(draft.payload)) for draft in made]
    with writing_as(version, written):
        log.append(made)


def _now_us() -> int:
    return time.time_ns() // 1000


def _golden(kind: str, version: int) -> bytes:
    golden = json.loads((GOLDEN / f"{kind}.v{version}.json").read_text(encoding="utf-8"))
    payload = golden["payload"]
    if kind == "fact_asserted":
        del payload["id"]  # equal in each file, but unique in a log
    if kind == "key_issued":
        for name in ("key_id", "key_sha256"):
            payload[name] = payload[name][:-1] + str(version)
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _read(kind: str, version: int, data: bytes) -> Payload:
    header = Header(1, bytes(16), "", "", 1, kind, version, 0, 0, "", None, None, b"", b"")
    payload = decode_payload(header, data)
    assert isinstance(payload, KINDS[kind])
    return payload


def _place(kind: str, data: bytes) -> str:
    if kind not in REPLICATED:
        return NODE_STREAM
    said = json.loads(data)
    return fact_partition(said.get("scope", "company"), said.get("garden_id"))
