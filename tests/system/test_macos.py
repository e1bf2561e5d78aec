"""What macOS does otherwise, imitated: the tests run on Linux."""

import fcntl
import os
import resource
from pathlib import Path

import pytest

from engramlog.api.http.connections import descriptors
from engramlog.eventlog import durable_file
from engramlog.eventlog.engines.sqlite.schema import connect_writer
from engramlog.projections.audit.statement import confine
from engramlog.projections.audit.statement_task import StatementLimits

F_FULLFSYNC = 51
UNLIMITED = 2**63 - 1


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How files were synced, on a system with F_FULLFSYNC."""
    ways: list[str] = []
    monkeypatch.setattr(durable_file, "DRIVE_SYNC", F_FULLFSYNC)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: ways.append(f"fcntl {command}"))
    monkeypatch.setattr(os, "fsync", lambda _: ways.append("fsync"))
    return ways


def test_private_files_reach_the_drive(synced: list[str], tmp_path: Path) -> None:
    durable_file.write_new(tmp_path / "key", b"secret")
    assert synced == ["fcntl 51"]


def test_file_systems_without_that_sync_get_the_usual_one(
    synced: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: int, __: int) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "fcntl", refused)
    durable_file.write_new(tmp_path / "key", b"secret")
    assert synced == ["fsync"]


def test_commits_of_the_log_reach_the_drive(tmp_path: Path) -> None:
    with connect_writer(tmp_path / "log.db") as db:
        assert (db.pragma("synchronous"), db.pragma("fullfsync")) == (2, 1)


@pytest.mark.parametrize("granted", [UNLIMITED, 65_536, 10_240, 256])
def test_a_node_opens_as_many_files_as_the_system_grants(
    granted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > granted:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, UNLIMITED))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert descriptors() == granted


def test_audit_statements_run_where_address_space_cannot_be_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited: set[int] = set()

    def set_limit(which: int, _: tuple[int, int]) -> None:
        if which == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        limited.add(which)

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    confine(StatementLimits(seconds=1.0, rows=1, memory_mib=256))
    assert limited == {resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE}
