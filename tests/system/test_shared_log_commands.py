"""The commands that make a log in PostgreSQL and move logs there and back."""

import shutil
from pathlib import Path

import psycopg
import pytest

from engramlog.api.client.client import ClientError
from engramlog.api.node.log_place import log_inside, log_shared
from engramlog.eventlog.clock import SystemClock
from engramlog.eventlog.directory import DataDirectory
from tests.worlds.postgres_servers import Server
from tests.worlds.processes import engramlog, fact, serving


def test_a_log_moves_to_postgresql_and_back_with_its_identity(
    tmp_path: Path, postgres_url: str
) -> None:
    data, back = tmp_path / "data", tmp_path / "back"
    with serving(data, "--no-auth") as node:
        for number in range(5):
            body = {
                "entity": "user:a", "relation": f"memory:n{number}",
                "value": {"type": "text", "v": "x"}, "source": "agent:t", "scope": "company",
            }  # fmt: skip
            node.client().post("/v1/facts", body)
    moved = engramlog("copy-log", data, postgres_url, "--quiet")
    assert moved.returncode == 0, moved.stderr
    assert "copied and verified up to position" in moved.stdout
    without = engramlog("copy-log", postgres_url, back, "--quiet")
    assert without.returncode == 1
    assert "identity backup" in without.stderr
    kept = engramlog("identity", "backup", back / "identity", "--data", data)
    assert kept.returncode == 0, kept.stderr
    returned = engramlog("copy-log", postgres_url, back, "--quiet")
    assert returned.returncode == 0, returned.stderr
    assert returned.stdout == moved.stdout
    assert engramlog("replay", "verify", "--data", back).returncode == 0
    other = tmp_path / "other"
    with serving(other, "--no-auth"):
        pass
    refused = engramlog("copy-log", other, postgres_url, "--quiet")
    assert refused.returncode == 1
    assert "share its identity" in refused.stderr


def test_a_log_that_began_in_postgresql_moves_into_a_directory(
    tmp_path: Path, postgres_url: str
) -> None:
    first, back = tmp_path / "first", tmp_path / "back"
    over = {"STIGMEM_LOG": postgres_url, "STIGMEM_LOG_DURABILITY": "server"}
    with serving(first, "--no-auth", env=over) as node:
        node.client().post("/v1/facts", fact(1))
    kept = engramlog("identity", "backup", back / "identity", "--data", first)
    assert kept.returncode == 0, kept.stderr
    moved = engramlog("copy-log", postgres_url, back, "--quiet")
    assert moved.returncode == 0, moved.stderr
    verified = engramlog("replay", "verify", "--data", back)
    assert verified.returncode == 0, verified.stderr
    with serving(back, "--no-auth") as node:
        assert len(node.client().get("/v1/facts?scope=company")["facts"]) == 1


def test_a_log_whose_keys_are_lost_is_given_to_another_node(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    over = {"STIGMEM_LOG": postgres_url, "STIGMEM_LOG_DURABILITY": "server"}
    first, new = tmp_path / "first", tmp_path / "new"
    with serving(first, "--no-auth", env=over) as earlier:
        earlier.client().post("/v1/facts", fact(1))
        refused = engramlog("serve", "--data", new, "--port", "0", "--no-auth", env=over)
        assert refused.returncode == 1
        assert "engramlog log adopt" in refused.stderr
        given = engramlog("log", "adopt", postgres_server.url(), "--data", new)
        assert given.returncode == 0, given.stderr
        with serving(new, "--no-auth", env=over) as later:
            later.client().post("/v1/facts", fact(2))
            assert len(later.client().get("/v1/facts?scope=company")["facts"]) == 2
        with pytest.raises(ClientError, match="the log is that of"):
            earlier.client().post("/v1/facts", fact(3))
    assert engramlog("replay", "verify", "--data", new, env=over).returncode == 0
    again = engramlog("log", "adopt", postgres_server.url(), "--data", new)
    assert again.returncode == 1
    assert f"the log is that of {new} already" in again.stderr
    with (
        psycopg.connect(postgres_server.url(), autocommit=True) as db,
        pytest.raises(psycopg.DatabaseError, match="the head may only follow the events"),
    ):
        db.execute("UPDATE engramlog.head SET origin = 'stigmem:node:other'")


def test_a_directory_over_postgresql_that_lost_its_keys_does_not_become_another_node(
    tmp_path: Path, postgres_server: Server, postgres_url: str
) -> None:
    data = tmp_path / "data"
    over = {"STIGMEM_LOG": postgres_url, "STIGMEM_LOG_DURABILITY": "server"}
    with serving(data, "--no-auth", env=over) as node:
        node.client().post("/v1/facts", fact(1))
    shutil.rmtree(data / "identity")
    for command in (
        ("serve", "--data", data, "--port", "0", "--no-auth"),
        ("identity", "new", "--data", data),
    ):
        refused = engramlog(*command, env=over)
        assert refused.returncode == 1, command
        assert "engramlog log adopt" in refused.stderr, command
        assert not (data / "identity").exists()
    given = engramlog("log", "adopt", postgres_server.url(), "--data", data)
    assert given.returncode == 0, given.stderr
    with serving(data, "--no-auth", env=over) as node:
        assert len(node.client().get("/v1/facts?scope=company")["facts"]) == 1


def test_tables_are_prepared_once_and_for_an_existing_role(postgres_server: Server) -> None:
    url = postgres_server.url()
    missing = engramlog("log", "prepare", url, "--role", "nobody_there")
    assert missing.returncode == 1
    assert "no role 'nobody_there'" in missing.stderr
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE ROLE appender LOGIN")
        try:
            made = engramlog("log", "prepare", url, "--role", "appender")
            assert made.returncode == 0, made.stderr
            again = engramlog("log", "prepare", url, "--role", "appender")
            assert again.returncode == 1
            assert "holds a log already" in again.stderr
        finally:
            db.execute("DROP SCHEMA IF EXISTS engramlog CASCADE")
            db.execute("DROP ROLE appender")


def test_an_incomplete_copy_in_postgresql_is_not_used_until_copying_again_completes_it(
    tmp_path: Path, postgres_url: str
) -> None:
    data, views = tmp_path / "data", tmp_path / "views"
    with serving(data, "--no-auth") as node:
        node.client().post("/v1/facts/batch", [fact(n) for n in range(5)])
    directory = DataDirectory.inspect(data)
    with (
        log_inside(directory, SystemClock(), read_only=True) as log,
        log_shared(postgres_url, directory.identity, SystemClock(), copying=True) as there,
    ):
        start = log.read_stored(limit=4)
        there.copy(start, log.keys_of(start))
    for folder in (views, tmp_path / "back"):
        kept = engramlog("identity", "backup", folder / "identity", "--data", data)
        assert kept.returncode == 0, kept.stderr
    over = {"STIGMEM_LOG": postgres_url, "STIGMEM_LOG_DURABILITY": "server"}
    for command in (
        ("serve", "--data", views, "--port", "0", "--no-auth"),
        ("serve", "--data", views, "--port", "0", "--no-auth", "--accept-rollback"),
        ("replay", "verify", "--data", views),
        ("copy-log", postgres_url, tmp_path / "back"),
    ):
        refused = engramlog(*command, env=over)
        assert refused.returncode == 1, command
        assert "incomplete copy" in refused.stderr, command
    for _ in range(2):
        copied = engramlog("copy-log", data, postgres_url, "--quiet")
        assert copied.returncode == 0, copied.stderr
    with serving(views, "--no-auth", env=over) as node:
        assert len(node.client().get("/v1/facts?scope=company")["facts"]) == 5
        node.client().post("/v1/facts", fact(6))
    assert engramlog("replay", "verify", "--data", views, env=over).returncode == 0
