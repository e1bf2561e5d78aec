"""A log that was cut back under its tables: refused, or accepted in a new epoch."""

import shutil
from pathlib import Path

import psycopg
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.errors import LogCutBack
from engramlog.eventlog.kinds import Value
from engramlog.projections.writing.commands import Done
from tests.worlds.histories import asserted
from tests.worlds.postgres_servers import Server


def state(node: Node, text: str) -> str:
    done = node.write(asserted("user:u", f"rel:{text}", Value(type="string", v=text)))[0]
    assert isinstance(done, Done)
    assert done.fact_id is not None
    return done.fact_id


@pytest.fixture
def cut_back(tmp_path: Path) -> tuple[Path, str, str]:
    """A closed node with an earlier log: the directory, a fact that it has, and a lost one."""
    data, earlier = tmp_path / "data", tmp_path / "earlier.db"
    node = Node.open(data)
    kept = state(node, "kept")
    node.close()
    shutil.copy(data / "log.db", earlier)
    node = Node.open(data)
    lost = state(node, "lost")
    node.close()
    shutil.copy(earlier, data / "log.db")
    return data, kept, lost


def test_a_log_that_ends_before_its_tables_is_refused(cut_back: tuple[Path, str, str]) -> None:
    data, _, _ = cut_back
    for _ in range(2):
        with pytest.raises(LogCutBack, match=r"ends at position 2.*reach 3.*--accept-rollback"):
            Node.open(data)


def test_a_missing_log_under_its_tables_is_refused(cut_back: tuple[Path, str, str]) -> None:
    data, _, _ = cut_back
    (data / "log.db").unlink()
    with pytest.raises(LogCutBack, match=r"ends at position 0.*reach 3"):
        Node.open(data)
    assert not (data / "log.db").exists(), "an export would find it empty, and say nothing"


def test_an_image_file_shows_a_cut_back_log_without_tables(tmp_path: Path) -> None:
    data, earlier = tmp_path / "data", tmp_path / "earlier.db"
    node = Node.open(data)
    state(node, "kept")
    node.close()
    shutil.copy(data / "log.db", earlier)
    node = Node.open(data)
    state(node, "lost")
    assert node.kept_image.write()
    node.close()
    shutil.copy(earlier, data / "log.db")
    (data / "projections.db").unlink()
    with pytest.raises(LogCutBack, match=r"ends at position 2.*reach 3"):
        Node.open(data)
    Node.open(data, accept_rollback=True).close()
    Node.open(data).close()


def test_an_accepted_rollback_continues_in_a_new_epoch(cut_back: tuple[Path, str, str]) -> None:
    data, kept, lost = cut_back
    vectors = data / "vectors-000000000000.db"
    vectors.write_bytes(b"of facts that are gone")
    node = Node.open(data, accept_rollback=True)
    try:
        before = {
            stream for stream in node.log.stream_heads() if f"/{node.identity.epoch}/" not in stream
        }
        assert before
        assert (node.identity.epoch, node.identity.reason) == (2, "restored")
        assert node.reader.slot_of(kept) is not None
        assert node.reader.slot_of(lost) is None
        assert not vectors.exists()
        heads = {stream: node.log.stream_heads()[stream] for stream in before}
        state(node, "next")
        assert {stream: node.log.stream_heads()[stream] for stream in before} == heads
    finally:
        node.close()
    Node.open(data).close()


def test_a_log_in_postgresql_that_was_cut_back_is_refused_too(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    """As after a failover to a standby that lacked the last events."""

    def opened(*, accept_rollback: bool = False) -> Node:
        return Node.open(
            tmp_path / "data", log=postgres_url, durability="server",
            accept_rollback=accept_rollback,
        )  # fmt: skip

    node = opened()
    kept = state(node, "kept")
    node.close()
    head = "position, received_at, received_hlc, hash"
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        earlier = db.execute(f"SELECT {head} FROM engramlog.head".encode()).fetchone()
    assert earlier is not None
    node = opened()
    lost = state(node, "lost")
    node.close()
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute(
            "SET session_replication_role = replica"
        )  # bypasses the triggers that protect the tables
        for table in ("payloads", "events"):
            db.execute(f"DELETE FROM engramlog.{table} WHERE position > 2".encode())
        db.execute(f"UPDATE engramlog.head SET ({head}) = (%s, %s, %s, %s)".encode(), earlier)
    for _ in range(2):
        with pytest.raises(LogCutBack, match=r"ends at position 2.*reach 3.*--accept-rollback"):
            opened()
    node = opened(accept_rollback=True)
    try:
        assert node.identity.epoch == 2
        assert node.reader.slot_of(kept) is not None
        assert node.reader.slot_of(lost) is None
        state(node, "next")
    finally:
        node.close()
    opened().close()


def test_accepting_without_a_cut_changes_nothing(tmp_path: Path) -> None:
    Node.open(tmp_path / "data").close()
    node = Node.open(tmp_path / "data", accept_rollback=True)
    assert node.identity.epoch == 1
    node.close()
