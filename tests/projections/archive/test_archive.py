"""The archive equals the log, and its damage is found, named and repaired."""

import base64
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.codec import decode_header, encode_header, header_hash, payload_hash
from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.event import Stored
from engramlog.eventlog.kinds import Value
from engramlog.projections.archive import archive as module
from engramlog.projections.archive import segments
from engramlog.projections.archive.archive import Archive
from engramlog.projections.archive.rows import row_of, touched
from engramlog.projections.writing.commands import Done, RetractFact
from tests.worlds.histories import asserted

SEGMENT = 10


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    try:
        yield node
    finally:
        node.close()


def write(node: Node, count: int, start: int = 0) -> list[str]:
    ids: list[str] = []
    for n in range(start, start + count):
        value = Value(type="string", v=f'it\'s "{n}" ünï 🙂\n')
        done = node.write(asserted(f"user:u{n % 3}", "rel:note", value, scope="local"))[0]
        assert isinstance(done, Done)
        assert done.fact_id is not None
        ids.append(done.fact_id)
    return ids


def opened(node: Node) -> Archive:
    return Archive(node.directory, node.log, segment_events=SEGMENT)


def sources(archive: Archive, position: int) -> list[Path]:
    with archive.reading(position) as files:
        return files


def rows(archive: Archive, position: int) -> list[dict[str, Any]]:
    files = [str(path) for path in sources(archive, position)]
    with duckdb.connect() as db:
        found = db.execute(
            "SELECT * FROM read_parquet($files) WHERE position <= $position ORDER BY position",
            {"files": files, "position": position},
        )
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_the_archive_has_every_event_once_with_its_exact_bytes(node: Node) -> None:
    ids = write(node, 33)
    node.write(RetractFact(fact_id=ids[4], reason="wrong"))
    archive = opened(node)
    head = node.log.head().position
    for position in (1, SEGMENT, SEGMENT + 1, head - 1, head):
        found = rows(archive, position)
        stored = node.log.read_stored(0, position)
        assert [row["position"] for row in found] == [each.position for each in stored]
        for row, each in zip(found, stored, strict=True):
            assert base64.b64decode(row["header_base64"]) == each.header
            assert base64.b64decode(row["payload_base64"]) == each.payload
            assert base64.b64decode(row["salt_base64"]) == each.salt
            assert row["hash"] == each.hash.hex()
    last = rows(archive, head)[-1]
    assert (last["kind"], last["fact_ids"]) == ("fact_retracted", [ids[4]])
    fact = next(row for row in rows(archive, head) if row["fact_ids"] == [ids[7]])
    assert (fact["entity"], fact["relation"], fact["value"]) == (
        "user:u1",
        "rel:note",
        'it\'s "7" ünï 🙂\n',
    )


@pytest.mark.parametrize("payload", [b"", b"[1]", b'{"\xff":1}', b'{"x":1e400}'])
def test_bytes_that_are_no_object_are_a_row_without_detail(node: Node, payload: bytes) -> None:
    """Release 0.1.0 took them from peers, of kinds that it did not know."""
    write(node, 1)
    (stored,) = node.log.read_stored(node.log.head().position - 1, 1)
    header = msgspec.structs.replace(
        decode_header(stored.header), kind="fact_sung", payload_hash=payload_hash(b"s", payload)
    )
    data = encode_header(header)
    event = msgspec.structs.replace(
        stored, header=data, hash=header_hash(data), salt=b"s", payload=payload
    )
    row = row_of(event)
    assert (row["kind"], row["detail"], row["erased"], row["fact_ids"]) == (
        "fact_sung", None, False, [],
    )  # fmt: skip
    assert base64.b64decode(row["payload_base64"]) == payload


def test_full_segments_are_sealed_and_survive_a_restart(node: Node) -> None:
    write(node, 25)
    archive = opened(node)
    assert archive.seal() == 2
    assert [(each.first, each.last) for each in archive.segments] == [(1, 10), (11, 20)]
    assert archive.seal() == 0
    again = opened(node)
    assert again.segments == archive.segments
    write(node, 10, 25)
    assert again.seal() == 1


def test_a_backlog_is_sealed_one_segment_at_a_time(node: Node) -> None:
    write(node, 25)
    archive = opened(node)
    assert archive.seal_next()
    assert [(each.first, each.last) for each in archive.segments] == [(1, 10)]
    assert archive.seal_next()
    assert not archive.seal_next()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), "bytes"),
        (lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
         "sha256 differs"),
    ],
    ids=["missing", "truncated", "altered"],
)  # fmt: skip
def test_a_damaged_segment_is_named_and_written_again(node: Node, damage: Any, words: str) -> None:
    write(node, 25)
    archive = opened(node)
    head = node.log.head().position
    before = rows(archive, head)
    damage(node.directory.path / "archive" / archive.segments[1].name)
    faults = archive.check()
    assert len(faults) == 1
    assert archive.segments[1].name in faults[0]
    assert words in faults[0]
    assert rows(archive, head) == before
    assert archive.check() == []


def test_damage_never_reaches_an_answer(node: Node) -> None:
    """``sources`` itself checks, so no caller has to."""
    write(node, 25)
    archive = opened(node)
    head = node.log.head().position
    before = rows(archive, head)
    (node.directory.path / "archive" / archive.segments[0].name).write_bytes(b"")
    assert rows(archive, head) == before


def test_an_altered_event_that_is_not_sealed_reaches_no_answer(tmp_path: Path) -> None:
    data = tmp_path / "data"
    node = Node.open(data)
    for n in range(70):  # a start checks the last 64
        node.write(asserted("user:u", f"rel:r{n}", Value(type="string", v=f"fact {n}")))
    node.close()
    log = data / "log.db"
    altered = log.read_bytes().replace(b'"fact 1"', b'"fact X"')
    log.write_bytes(altered)
    node = Node.open(data)
    try:
        with pytest.raises(CorruptLog, match="position 3: payload does not match"):
            sources(opened(node), 70)
    finally:
        node.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"format":1,"segments":[{"name":"x"}]}',
        b'{"segments":[{"name":"\xff"}]}',
    ],
)
def test_an_unreadable_manifest_is_made_again(node: Node, content: bytes) -> None:
    write(node, 25)
    opened(node).seal()
    (node.directory.path / "archive" / "manifest.json").write_bytes(content)
    archive = opened(node)
    assert archive.segments == ()
    assert archive.seal() == 2
    assert len(rows(archive, 25)) == 25


def test_the_archive_of_another_log_is_not_believed(node: Node, tmp_path: Path) -> None:
    write(node, 25)
    other = Node.open(tmp_path / "other")
    try:
        write(other, 25)
        opened(other).seal()
        source = other.directory.path / "archive"
        target = node.directory.path / "archive"
        target.mkdir()
        for path in source.iterdir():
            if path.is_file():
                (target / path.name).write_bytes(path.read_bytes())
    finally:
        other.close()
    archive = opened(node)
    assert archive.segments == ()
    assert [row["hash"] for row in rows(archive, 5)] == [
        each.hash.hex() for each in node.log.read_stored(0, 5)
    ]


@pytest.mark.parametrize("call", range(1, 4))
def test_a_crash_while_sealing_leaves_nothing_that_counts(
    node: Node, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Stopped at the n-th rename (segment, manifest, segment): finished steps count, the rest is
    repeated."""
    write(node, 25)
    archive = opened(node)
    count = 0
    real = os.replace

    def dying(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == call:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        archive.seal()
    monkeypatch.undo()
    again = opened(node)
    known = {each.name for each in again.segments} | {"manifest.json", "tail"}
    assert {path.name for path in (node.directory.path / "archive").iterdir()} <= known
    again.seal()
    assert len(again.segments) == 2
    assert len(rows(again, 25)) == 25


def test_an_event_that_breaks_its_chain_is_not_sealed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(node, 25)
    archive = opened(node)
    real = node.log.read_stored

    def altered(*args: Any) -> list[Stored]:
        found = real(*args)
        return [
            Stored(e.position, e.received_at, e.received_hlc, e.peer, e.header, e.hash, e.salt,
                   b'{"kind":"fact_asserted"}') if e.position == 7 else e
            for e in found
        ]  # fmt: skip

    monkeypatch.setattr(node.log, "read_stored", altered)
    with pytest.raises(CorruptLog) as fault:
        archive.seal()
    assert fault.value.position == 7
    assert archive.segments == ()


def test_rewriting_touches_only_the_segments_named(node: Node) -> None:
    write(node, 35)
    archive = opened(node)
    archive.seal()
    marks = [
        (node.directory.path / "archive" / each.name).stat().st_mtime_ns
        for each in archive.segments
    ]
    archive.rewrite([12])
    after = [
        (node.directory.path / "archive" / each.name).stat().st_mtime_ns
        for each in archive.segments
    ]
    assert [old == new for old, new in zip(marks, after, strict=True)] == [True, False, True]


def test_a_tail_grows_by_whole_chunks(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAIL_CHUNK_EVENTS", 3)
    written: list[str] = []
    real = segments.write_parquet

    def noted(target: Path, events: Any) -> None:
        written.append(target.name)
        real(target, events)

    monkeypatch.setattr(module, "write_parquet", noted)
    write(node, 7)
    archive = opened(node)
    sources(archive, 8)
    first = len(written)
    sources(archive, 8)
    assert len(written) == first
    write(node, 1, 7)
    sources(archive, 9)
    assert len(written) == first + 1


def test_large_events_share_no_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    write(node, 25)
    sizes = [len(each.header) + len(each.payload or b"") for each in node.log.read_stored()]
    most = 3 * max(sizes)
    monkeypatch.setattr(module, "FILE_BYTES_MAX", most)
    archive = opened(node)
    head = node.log.head().position
    assert [row["position"] for row in rows(archive, head)] == list(range(1, head + 1))
    assert archive.sealed == 2 * SEGMENT
    for segment in archive.segments:
        assert sum(sizes[segment.first - 1 : segment.last]) <= most
    tail = sorted((node.directory.path / "archive" / "tail").glob("*.parquet"))
    assert len(tail) > 1
    sources(archive, head)
    assert sorted((node.directory.path / "archive" / "tail").glob("*.parquet")) == tail
    assert archive.check() == []
    archive.rewrite([12])
    assert len(rows(archive, head)) == head


def test_a_tail_that_cannot_be_removed_is_the_fault_that_is_named(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(node)

    def refused(folder: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(module.shutil, "rmtree", refused)
    with pytest.raises(PermissionError, match=r"archive/tail"):
        opened(node)


def test_files_stay_where_they_are_while_somebody_reads(node: Node) -> None:
    write(node, 4)
    archive = opened(node)
    with archive.reading(5) as files:
        write(node, 2, 4)
        newer = sources(archive, 7)  # replaces the tail
        assert set(files) - set(newer)
        assert all(path.exists() for path in (*files, *newer))
    assert not any(path.exists() for path in set(files) - set(newer))
    assert all(path.exists() for path in newer)


def test_an_erasure_waits_for_readers_and_leaves_none_of_their_files(node: Node) -> None:
    write(node, 4)
    archive = opened(node)
    done = threading.Event()

    def erase() -> None:
        archive.rewrite([3])
        done.set()

    with archive.reading(5) as files:
        eraser = threading.Thread(target=erase)
        eraser.start()
        assert not done.wait(0.2)
        assert all(path.exists() for path in files)
    assert done.wait(10)
    eraser.join()
    assert not any(path.exists() for path in files)


def test_touched_facts_come_from_the_fields() -> None:
    assert touched("fact_asserted", "e1", {"entity": "x"}) == ["e1"]
    assert touched("fact_asserted", "e1", {"id": "other"}) == ["other"]
    assert touched("fact_retracted", "e2", {"fact_ids": ["a", "b"], "marker_id": "m"}) == [
        "m",
        "a",
        "b",
    ]
    assert touched(
        "conflict_resolved",
        "e3",
        {"winner_id": "w", "loser_ids": ["l"], "resolution_fact_id": "r"},
    ) == ["w", "r", "l"]
    assert touched("recall_served", "e4", {"uses": [{"fact_id": "u"}]}) == ["u"]
    assert touched("fact_feedback", "e5", {"cited": ["c"], "rejected": ["r", "c"]}) == ["c", "r"]
