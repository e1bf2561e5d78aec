"""Backups of a running node: made, restored, and refused if incomplete."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.eventlog.clock import SystemClock
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.vectors.vec_facts import VecFacts
from engramlog.replay.backups import check_backup, make_backup, restore_backup
from tests.worlds.histories import asserted
from tests.worlds.processes import engramlog, serving


def state(client: Client, number: int) -> str:
    body = {
        "entity": "user:a", "relation": f"memory:n{number}",
        "value": {"type": "text", "v": f"fact {number}"}, "source": "agent:t", "scope": "company",
    }  # fmt: skip
    return str(client.post("/v1/facts", body)["id"])


def ids(client: Client) -> set[str]:
    page = client.get("/v1/facts", {"limit": 500})
    assert page["cursor"] is None
    return {each["id"] for each in page["facts"]}


def test_a_backup_under_load_restores_every_write_before_it(tmp_path: Path) -> None:
    written: list[str] = []
    stop = threading.Event()
    with serving(tmp_path / "data", "--no-auth") as node:
        client = node.client()
        written += [state(client, number) for number in range(50)]
        before = set(written)
        mine = node.client()

        def write() -> None:
            number = 50
            while not stop.is_set() and number < 400:
                written.append(state(mine, number))
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        made = engramlog("backup", tmp_path / "monday", "--data", tmp_path / "data")
        stop.set()
        writer.join()
        assert made.returncode == 0, made.stderr
        node_id = client.get("/.well-known/stigmem")["node_id"]
    shutil.rmtree(tmp_path / "data")  # simulates the loss of the machine
    restored = engramlog("restore", tmp_path / "monday", "--data", tmp_path / "again")
    assert restored.returncode == 0, restored.stderr
    assert engramlog("replay", "verify", "--data", tmp_path / "again").returncode == 0
    with serving(tmp_path / "again", "--no-auth") as node:
        client = node.client()
        held = ids(client)
        assert before <= held <= set(written)
        assert client.get("/.well-known/stigmem")["node_id"] == node_id
        new = state(client, 1_000)
        assert new in ids(client)
        client.post("/v1/recall", {"query": "fact 7", "scope": "company"})
    shown = engramlog("identity", "show", "--data", tmp_path / "again")
    assert "epoch       2" in shown.stdout
    assert engramlog("replay", "verify", "--data", tmp_path / "again").returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node's directory, and a backup of it."""
    folder = tmp_path_factory.mktemp("made")
    with serving(folder / "data", "--no-auth") as node:
        for number in range(5):
            state(node.client(), number)
    done = engramlog("backup", folder / "monday", "--data", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def backup(made: Path, tmp_path: Path) -> Path:
    """A copy of that backup, to damage, and of the directory."""
    shutil.copytree(made / "data", tmp_path / "data", symlinks=True)
    shutil.copytree(made / "monday", tmp_path / "monday", symlinks=True)
    return tmp_path / "monday"


@pytest.mark.parametrize("name", ["log.db", "projections.db", "identity/node.key"])
@pytest.mark.parametrize("damage", ["altered", "cut", "missing"])
def test_a_damaged_backup_is_refused_by_name(backup: Path, name: str, damage: str) -> None:
    file = backup / name
    data = file.read_bytes()
    match damage:
        case "altered":
            file.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case _:
            file.unlink()
    target = backup.parent / "again"
    done = engramlog("restore", backup, "--data", target)
    assert done.returncode == 1
    assert name in done.stderr
    assert not target.exists()


def test_a_backup_of_a_directory_with_a_damaged_file_names_the_file(backup: Path) -> None:
    tables = (backup.parent / "data" / "projections.db").resolve()
    os.truncate(tables, 5_000)
    done = engramlog("backup", backup.parent / "new", "--data", backup.parent / "data")
    assert (done.returncode, f"cannot copy {tables}: " in done.stderr) == (1, True)
    assert not (backup.parent / "new").exists()


def test_a_backup_is_not_opened_as_a_node_which_would_change_it(backup: Path) -> None:
    for args in (("show", "user:a"), ("recall", "x"), ("serve", "--port", "0")):
        done = engramlog(*args, "--data", backup)
        assert done.returncode == 1
        assert f"{backup} is a backup" in done.stderr
        assert f"engramlog restore {backup} --data" in done.stderr
    assert engramlog("backup", backup, "--check").returncode == 0


def test_a_damaged_backup_fails_its_check(backup: Path) -> None:
    assert engramlog("backup", backup, "--check").returncode == 0
    (backup / "log.db").write_bytes((backup / "log.db").read_bytes()[:-1])
    done = engramlog("backup", backup, "--check")
    assert (done.returncode, "log.db" in done.stderr) == (1, True)


def test_no_backup_without_its_manifest_and_none_over_another(backup: Path) -> None:
    again = engramlog("backup", backup, "--data", backup.parent / "data")
    assert (again.returncode, "is not empty" in again.stderr) == (1, True)
    over = engramlog("restore", backup, "--data", backup.parent / "data")
    assert (over.returncode, "exists" in over.stderr) == (1, True)
    (backup / "manifest.json").unlink()
    done = engramlog("restore", backup, "--data", backup.parent / "again")
    assert (done.returncode, "manifest.json" in done.stderr) == (1, True)


def test_a_backup_follows_files_that_the_node_replaces_meanwhile(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    node.write(asserted())
    for name in ("vectors-old.db", "vectors-new.db"):
        VecFacts(tmp_path / "data" / name, Space("minilm", "any", 4)).close()

    def replacing(name: str, _done: int, _of: int) -> None:
        if name == "projections.db":
            node.rebuild()
            (tmp_path / "data" / "vectors-old.db").unlink()

    target = tmp_path / "backup"
    try:
        made = make_backup(tmp_path / "data", target, SystemClock(), replacing)
    finally:
        node.close()
    names = [each.name for each in made.files]
    assert [name for name in names if name.startswith("vectors")] == ["vectors-new.db"]
    assert check_backup(target, lambda *_: None) == made
    restore_backup(target, tmp_path / "again", lambda *_: None)
    again = Node.open(tmp_path / "again")
    assert len(again.reader.image.facts.slot_of) == 1
    again.close()


def test_a_refused_restore_leaves_nothing_behind(backup: Path) -> None:
    target = backup.parent / "again"
    done = engramlog("restore", backup, "--data", target, "--epoch", "1")
    assert (done.returncode, "above the backup's 1" in done.stderr) == (1, True)
    assert sorted(path.name for path in backup.parent.iterdir()) == ["data", "monday"]


def test_a_restore_fills_the_folder_that_a_link_names(backup: Path) -> None:
    folder, link = backup.parent / "folder", backup.parent / "link"
    folder.mkdir()
    link.symlink_to(folder)
    restore_backup(backup, link, lambda *_: None)
    assert (folder / "log.db").exists()
    assert link.is_symlink()
