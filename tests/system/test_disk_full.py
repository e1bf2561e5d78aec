"""A full disk: writes are refused with a clear error, reads continue, and everything recovers with
free space."""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.client.client import Client, ClientError
from engramlog.eventlog.durable_file import digest_of
from tests.worlds.processes import NodeProcess, engramlog, fact, serving
from tests.worlds.waiting import until

DISK_BYTES = 32 * 1024 * 1024
FILLER_BYTES = 16 * 1024 * 1024
BATCH = 100
REFUSALS = {503, 507}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, timeout=10, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], timeout=10, check=True)


def fill(client: Client, number: int) -> tuple[dict[str, int], int]:
    """Write until refused: positions of acknowledged facts by id, and the refusal's status."""
    acknowledged: dict[str, int] = {}
    while True:
        bodies = [fact(number + n, value={"type": "text", "v": "x" * 4_000}) for n in range(BATCH)]
        number += BATCH
        try:
            for result in client.post("/v1/facts/batch", bodies)["results"]:
                assert result["status"] == 201
                acknowledged[result["id"]] = result["position"]
        except ClientError as fault:
            return acknowledged, fault.status


def test_a_full_disk_loses_no_acknowledged_write(disk: Path) -> None:
    filler = disk / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    with serving(disk / "data", "--no-auth") as node:
        client = node.client()
        first = client.post("/v1/facts/batch", [fact(n) for n in range(BATCH)])["results"]
        assert client.get("/v1/facts", {"limit": 1})["total"] == BATCH  # the views have followed
        acknowledged, status = fill(client, BATCH)
        assert status in REFUSALS
        assert acknowledged
        # Later batches may be in the log and not yet in the views: they could not grow.
        for each in first[::10]:
            assert client.get(f"/v1/facts/{each['id']}")["id"] == each["id"]
        acknowledged |= {each["id"]: each["position"] for each in first}
        filler.unlink()
        again = _write_again(client)
        assert client.get("/readyz")["status"] == "ok"
    with serving(disk / "data", "--no-auth") as node:
        client = node.client()
        for fact_id, position in {**acknowledged, **again}.items():
            assert client.get(f"/v1/facts/{fact_id}")["position"] == position


def test_a_backup_without_room_says_so(disk: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        bodies = [fact(n, value={"type": "text", "v": "x" * 4_000}) for n in range(BATCH)]
        node.client().post("/v1/facts/batch", bodies)
    (disk / "filler").write_bytes(bytes(DISK_BYTES - 64 * 1024))
    made = engramlog("backup", str(disk / "backup"), "--data", str(tmp_path / "data"))
    assert made.returncode == 1
    assert "no space left to copy" in made.stderr
    assert not (disk / "backup").exists()
    for args in (
        ("export", "--output", disk / "e.jsonl"),
        ("replay", "heads", "--out", disk / "h.json"),
        ("identity", "backup", disk / "keys"),
    ):
        fill_up(disk / "filler")
        refused = engramlog(*args, "--data", tmp_path / "data")
        assert refused.returncode == 1
        assert f"{args[-1]}" in refused.stderr
        assert "No space left on device" in refused.stderr


def test_a_restore_without_room_names_the_copy_and_leaves_nothing(
    disk: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        node.client().post("/v1/facts", fact(1))
    assert engramlog("backup", tmp_path / "backup", "--data", tmp_path / "data").returncode == 0
    fill_up(disk / "filler")
    refused = engramlog("restore", tmp_path / "backup", "--data", disk / "data")
    assert refused.returncode == 1
    assert f"{disk / 'data.restoring'}" in refused.stderr
    assert "No space left on device" in refused.stderr
    assert [each.name for each in disk.iterdir()] == ["filler"]
    (disk / "filler").unlink()
    assert engramlog("restore", tmp_path / "backup", "--data", disk / "data").returncode == 0


def test_a_log_copied_without_room_is_not_served_and_copying_it_again_continues(
    disk: Path, tmp_path: Path
) -> None:
    data, copy = tmp_path / "data", disk / "copy"
    letters = random.Random(1)
    with serving(data, "--no-auth") as node:
        for number in range(0, 4_500, 500):
            bodies = [
                fact(number + n, value={"type": "text", "v": letters.randbytes(600).hex()})
                for n in range(500)
            ]
            node.client().post("/v1/facts/batch", bodies)
    original = digest_of(data / "log.db")
    kept = engramlog("identity", "backup", copy / "identity", "--data", data)
    assert kept.returncode == 0, kept.stderr
    (disk / "filler").write_bytes(bytes(DISK_BYTES - 6 * 1024 * 1024))
    full = engramlog("copy-log", data, copy, "--quiet")
    assert full.returncode == 1
    assert "no space left for the log" in full.stderr
    assert digest_of(data / "log.db") == original
    (disk / "filler").unlink()
    for command in (("serve", "--port", "0"), ("replay", "verify"), ("rebuild",)):
        refused = engramlog(*command, "--data", copy)
        assert refused.returncode == 1, command
        assert "incomplete copy" in refused.stderr
    again = engramlog("copy-log", data, copy, "--quiet")
    assert again.returncode == 0, again.stderr
    assert engramlog("replay", "verify", "--data", copy).stdout.startswith("verified 4,5")
    assert digest_of(data / "log.db") == original


def test_tables_without_room_to_be_made_are_named(disk: Path) -> None:
    """Where SQLite has no words of its own, and where it has."""
    with serving(disk / "data", "--no-auth") as node:
        bodies = [fact(n, value={"type": "text", "v": "x" * 4_000}) for n in range(BATCH)]
        node.client().post("/v1/facts/batch", bodies)
        assert engramlog("snapshot", "take", "--data", disk / "data").returncode == 0
        for pages in (0, 60):
            fill_up(disk / "filler")
            with (disk / "filler").open("r+b") as file:
                file.truncate(file.seek(0, os.SEEK_END) - pages * 4096)
            for command in (
                ("rebuild", "--from-scratch"),
                ("snapshot", "take", "--position", "50"),
                ("snapshot", "verify", "--replay"),
            ):
                refused = engramlog(*command, "--data", disk / "data")
                assert refused.returncode == 1
                assert "no space left for the tables" in refused.stderr
                assert "not an error" not in refused.stderr
        (disk / "filler").unlink()
        rebuilt = engramlog("rebuild", "--from-scratch", "--data", disk / "data")
        assert "equal to the views in use" in rebuilt.stdout


def test_a_statement_without_room_for_its_files_is_refused(disk: Path, tmp_path: Path) -> None:
    archive = tmp_path / "data" / "archive"
    archive.mkdir(parents=True)
    subprocess.run(["mount", "--bind", str(disk), str(archive)], timeout=10, check=True)
    try:
        with serving(tmp_path / "data", "--no-auth") as node:
            node.client().post("/v1/facts", fact(1))
            filler = archive / "filler"
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            sql = {"sql": "SELECT count(*) FROM events"}
            admin = node.client(node.control.token)
            with pytest.raises(ClientError) as refused:
                admin.post("/v1/time-travel/sql", sql)
            assert refused.value.status == 507
            assert str(tmp_path) not in str(refused.value)
            filler.unlink()
            assert admin.post("/v1/time-travel/sql", sql)["rows"]
    finally:
        subprocess.run(["umount", "-l", str(archive)], timeout=10, check=True)


def test_a_disk_without_inodes_refuses_what_needs_files_and_says_so(disk: Path) -> None:
    with serving(disk / "data", "--no-auth") as node:
        client = node.client()
        first = client.post("/v1/facts", fact(1))
        assert client.get("/v1/facts")["total"] == 1  # the side files of the tables are there
        used = os.statvfs(disk).f_files - os.statvfs(disk).f_ffree
        limit = ["mount", "-o", f"remount,nr_inodes={used}", str(disk)]
        subprocess.run(limit, timeout=10, check=True)
        second = client.post("/v1/facts", fact(2))
        refused = engramlog("rebuild", "--data", disk / "data")
        assert (refused.returncode, "free inodes" in refused.stderr) == (1, True)
        assert engramlog("snapshot", "take", "--data", disk / "data").returncode == 1
        assert client.get("/v1/facts")["total"] == 2
        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", str(disk)], timeout=10, check=True)
        assert engramlog("rebuild", "--data", disk / "data").returncode == 0
        for each in (first, second):
            assert client.get(f"/v1/facts/{each['id']}")["position"] == each["position"]


def test_a_history_without_room_for_its_files_is_refused(disk: Path) -> None:
    with serving(disk / "data", "--no-auth") as node:
        client = node.client()
        record = client.post("/v1/facts", fact(1))
        reads: tuple[tuple[str, dict[str, str]], ...] = (
            (f"/v1/time-travel/facts/{record['id']}", {}),
            ("/v1/log", {"kind": "fact_asserted"}),
        )
        fill_up(disk / "filler")
        for path, query in reads:
            with pytest.raises(ClientError, match="no space left") as refused:
                client.get(path, query)
            assert (refused.value.status, refused.value.code) == (507, "storage_full")
        (disk / "filler").unlink()
        for path, query in reads:
            assert len(client.get(path, query)["events"]) == 1
        assert "Traceback" not in node.errors()


def test_erasing_needs_no_room_for_temporary_files_elsewhere(disk: Path, tmp_path: Path) -> None:
    fill_up(disk / "filler")
    # Not from the warm process, in which SQLite has read the variable.
    node = NodeProcess(
        tmp_path / "data", "--no-auth", env={"SQLITE_TMPDIR": str(disk)}, within=("env",)
    )
    try:
        client = node.wait_ready().client(node.control.token)
        ids: list[str] = []
        for start in range(0, 10 * BATCH, BATCH):
            texts = [{"type": "text", "v": f"{start + n} " * 1_000} for n in range(BATCH)]
            bodies = [fact(start + n, value=text) for n, text in enumerate(texts)]
            ids += [each["id"] for each in client.post("/v1/facts/batch", bodies)["results"]]
        erasure = {"fact_ids": [ids[0]], "wait": True}
        assert client.post("/v1/erasures", erasure)["status"] == "clean"
    finally:
        node.stop()


def test_a_read_only_file_system_is_named_at_start_and_stays_unchanged(disk: Path) -> None:
    with serving(disk / "data", "--no-auth") as node:
        record = node.client().post("/v1/facts", fact(1))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], timeout=10, check=True)
    refused = engramlog("serve", "--data", disk / "data", "--port", "0", "--no-auth")
    assert (refused.returncode, "Read-only file system" in refused.stderr) == (1, True)
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], timeout=10, check=True)
    with serving(disk / "data", "--no-auth") as node:
        assert node.client().get(f"/v1/facts/{record['id']}")["position"] == record["position"]


def test_a_node_that_was_killed_starts_on_a_full_disk_and_answers(disk: Path) -> None:
    node = NodeProcess(disk / "data", "--no-auth").wait_ready()
    record = node.client().post("/v1/facts", fact(1))
    assert node.client().get("/v1/facts")["total"] == 1
    node.kill()
    fill_up(disk / "filler")
    with serving(disk / "data", "--no-auth") as again:
        client = again.client()
        assert client.get(f"/v1/facts/{record['id']}")["position"] == record["position"]
        assert client.get("/v1/facts")["total"] == 1


@pytest.mark.parametrize("pages", [6, 20, 22, 30])
def test_a_disk_that_is_too_full_for_a_new_node_is_named(disk: Path, pages: int) -> None:
    """Room for the keys, for the log but not its side file, or for no tables."""
    filler = disk / "filler"
    fill_up(filler)
    with filler.open("r+b") as file:
        file.truncate(filler.stat().st_size - pages * 4096)
    refused = engramlog("serve", "--data", disk / "data", "--port", "0", "--no-auth")
    assert refused.returncode == 1
    assert "no space left" in refused.stderr.lower()
    filler.unlink()
    with serving(disk / "data", "--no-auth") as node:
        assert node.client().post("/v1/facts", fact(1))["position"]


def fill_up(filler: Path) -> None:
    """Take every byte that the disk has left."""
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def _write_again(client: Client) -> dict[str, int]:
    """A write after space is free again; the node may refuse a few first."""

    def written() -> dict[str, Any] | None:
        try:
            return client.post("/v1/facts", fact(10_000_000))
        except ClientError as fault:
            if fault.status not in REFUSALS:
                raise
            return None

    record = until(written)
    assert record is not None
    return {record["id"]: record["position"]}
