"""A log that was cut back under its tables: refused, or accepted in a new epoch."""

import shutil
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.engines.postgres.schema import prepare
from engramlog.eventlog.errors import DataDirectoryError, LogCutBack
from engramlog.eventlog.identity import Identity
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


def sharing(first: Path, second: Path) -> Path:
    """A directory with the identity of another one in place of any that it had."""
    shutil.rmtree(second / "identity", ignore_errors=True)
    Identity.load(first / "identity").backup(second / "identity")
    return second


def over(data: Path, url: str, *, accept_rollback: bool = False) -> Node:
    return Node.open(data, log=url, durability="server", accept_rollback=accept_rollback)


@pytest.fixture
def replaced(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> tuple[Path, Path, str, set[str]]:
    """Two closed nodes over a log in PostgreSQL whose place a longer one with other events has
    taken, as after a failover to a server that lacked the last events; its address and facts."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with closing(over(first, postgres_url)) as node:
        state(node, "lost")
    over(sharing(first, second), postgres_url).close()
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("DROP SCHEMA engramlog CASCADE")
    prepare(postgres_server.url(), "node")
    with closing(over(sharing(first, third), postgres_url)) as node:
        facts = {state(node, text) for text in ("one", "two", "three")}
    return first, second, postgres_url, facts


def test_a_longer_log_without_the_events_of_the_tables_is_refused(
    replaced: tuple[Path, Path, str, set[str]],
) -> None:
    first, _, url, facts = replaced
    for _ in range(2):
        with pytest.raises(LogCutBack, match=r"another event at position 2.*--accept-rollback"):
            over(first, url)
    with closing(over(first, url, accept_rollback=True)) as node:
        assert node.identity.epoch == 2
        assert set(node.reader.image.facts.slot_of) == facts
    over(first, url).close()


def test_a_node_that_takes_the_identity_of_one_that_accepted_a_rollback_follows_it(
    replaced: tuple[Path, Path, str, set[str]],
) -> None:
    """Accepting it again would begin another epoch, which locks the first node out."""
    first, second, url, facts = replaced
    with closing(over(first, url, accept_rollback=True)) as node:
        with pytest.raises(DataDirectoryError, match="the log is in epoch 2"):
            over(second, url)
        with closing(over(sharing(first, second), url)) as other:
            assert other.identity.epoch == 2
            assert set(other.reader.image.facts.slot_of) == facts
            facts.add(state(other, "four"))
        facts.add(state(node, "five"))
        assert set(node.reader.image.facts.slot_of) == facts
    over(second, url).close()


def test_a_node_in_an_epoch_of_its_own_follows_a_restored_log(
    replaced: tuple[Path, Path, str, set[str]],
) -> None:
    first, _, url, facts = replaced
    HeldDirectory.accept_copy(first)
    with closing(over(first, url)) as node:
        assert node.identity.epoch == 2
        assert set(node.reader.image.facts.slot_of) == facts


def test_accepting_without_a_cut_changes_nothing(tmp_path: Path) -> None:
    Node.open(tmp_path / "data").close()
    node = Node.open(tmp_path / "data", accept_rollback=True)
    assert node.identity.epoch == 1
    node.close()
