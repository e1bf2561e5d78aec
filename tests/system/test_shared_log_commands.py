"""The commands that make a log in PostgreSQL and move logs there and back."""

from pathlib import Path

import psycopg

from tests.worlds.postgres_servers import Server
from tests.worlds.processes import engramlog, serving


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
