"""A serving node and a folder of Markdown files: recall follows each change of the folder, and the
past keeps the earlier texts."""

import json
import os
import time
from pathlib import Path
from typing import Any

from engramlog.api.client.client import Client
from tests.worlds.processes import NodeProcess, engramlog
from tests.worlds.waiting import until

WAIT_SECONDS_MAX = 30.0
PROFILE = {
    "name": "paragraphs",
    "description": "the summaries stage alone",
    "stages": [{"name": "summaries", "weight": 1.0}],
}


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    aside.write_text(text)
    aside.replace(path)


def recalled(client: Client, query: str, **more: Any) -> list[str]:
    body = {"query": query, "profile": "paragraphs", **more}
    answer = client.post("/v1/recall", body)
    return sorted(each["fact"]["value"]["v"] for each in answer["results"])


def head(client: Client) -> int:
    """The log's position, after everything written so far."""
    return int(client.get("/readyz")["position"])


def serve(data: Path, folder: Path) -> NodeProcess:
    env = {"STIGMEM_SUMMARIES_DIR": str(folder)}
    return NodeProcess(data, "--no-auth", env=env).wait_ready()


def test_files_become_answers_and_the_past_keeps_them(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    name = "consolidation/weekly/weekly_2026-W25.md"
    write(folder, name, "# Week 25\n\nWe migrated to SQLite.\n\nAlice left.\n")
    write(folder, "weekly/weekly_probe.md", "SQLite, and nobody may know.\n")
    node = serve(tmp_path / "data", folder)
    try:
        client = node.client(node.control.token)
        client.request("PUT", "/v1/profiles/paragraphs", body=PROFILE)
        until(lambda: recalled(client, "sqlite") == ["We migrated to SQLite."])
        first = head(client)

        write(folder, name, "# Week 25\n\nWe migrated to Postgres.\n\nAlice left.\n")
        until(lambda: recalled(client, "sqlite OR postgres") == ["We migrated to Postgres."])
        second = head(client)
        kept = client.get("/v1/summaries", {"as_of": f"position:{first}"})["summaries"][0]
        now = client.get("/v1/summaries")["summaries"][0]
        pairs = zip(kept["paragraphs"], now["paragraphs"], strict=True)
        same = [before["fact_id"] == after["fact_id"] for before, after in pairs]
        assert same == [True, False, True]

        (folder / name).unlink()
        until(lambda: recalled(client, "postgres OR alice") == [])
        until(lambda: client.get("/v1/summaries")["summaries"] == [])

        at_first = {"as_of": f"position:{first}"}
        assert recalled(client, "sqlite OR postgres", **at_first) == ["We migrated to SQLite."]
        at_second = {"as_of": f"position:{second}"}
        assert recalled(client, "sqlite OR alice", **at_second) == ["Alice left."]
    finally:
        node.stop()


def test_changes_while_the_node_was_down(tmp_path: Path) -> None:
    folder, data = tmp_path / "memory", tmp_path / "data"
    write(folder, "daily/daily_2026-06-15.md", "The deploy failed.\n")
    write(folder, "daily/daily_2026-06-16.md", "The deploy was repeated.\n")
    write(folder, "daily/daily_2026-06-17.md", "The deploy went well.\n")
    node = serve(data, folder)
    client = node.client(node.control.token)
    client.request("PUT", "/v1/profiles/paragraphs", body=PROFILE)
    until(lambda: len(recalled(client, "deploy")) == 3)
    node.stop()

    write(folder, "daily/daily_2026-06-15.md", "The deploy failed twice.\n")
    (folder / "daily/daily_2026-06-16.md").unlink()
    write(folder, "quarterly/quarterly_2026-Q2.md", "Many a deploy.\n")
    node = serve(data, folder)
    try:
        client = node.client(node.control.token)
        wanted = ["Many a deploy.", "The deploy failed twice.", "The deploy went well."]
        until(lambda: recalled(client, "deploy") == wanted)
    finally:
        node.stop()

    position = head_of(data)
    node = serve(data, folder)
    time.sleep(3.0)  # no changes, so no writes
    node.stop()
    assert head_of(data) == position
    done = engramlog("replay", "rebuild", "--data", data)
    assert done.returncode == 0, done.stderr
    assert "equal to the views in use" in done.stdout


def head_of(data: Path) -> int:
    done = engramlog("summaries", "list", "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 3
    done = engramlog("replay", "heads", "--data", data)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["position"])


def test_a_missing_folder_ends_no_task(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    write(folder, "daily/daily_2026-06-15.md", "The deploy failed.\n")
    (folder / "daily/daily_2026-06-16.md").write_bytes(b"\xff\xfe deploy")
    node = serve(tmp_path / "data", folder)
    try:
        client = node.client(node.control.token)
        client.request("PUT", "/v1/profiles/paragraphs", body=PROFILE)
        until(lambda: recalled(client, "deploy") == ["The deploy failed."])
        os.rename(folder, tmp_path / "away")
        time.sleep(3.0)
        assert recalled(client, "deploy") == ["The deploy failed."]
        os.rename(tmp_path / "away", folder)
        write(folder, "daily/daily_2026-06-17.md", "The deploy went well.\n")
        until(lambda: recalled(client, "deploy") == ["The deploy failed.", "The deploy went well."])
        assert "is not UTF-8" in node.errors()
    finally:
        node.stop()


def test_an_unusable_file_is_skipped_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    write(folder, "weekly/weekly_2026-W24.md", "One\0.\n")
    write(folder, "weekly/weekly_2026-W25.md", "Two.\n")
    done = engramlog("summaries", "import", folder, "--data", tmp_path / "data")
    assert "skipped weekly/weekly_2026-W24.md: the file holds the NUL character" in done.stderr
    assert (done.returncode, done.stdout) == (1, "recorded 1 summaries, 0 unchanged\n")


def test_import_is_repeatable_and_json(tmp_path: Path) -> None:
    folder, data = tmp_path / "memory", tmp_path / "data"
    write(folder, "weekly/weekly_2026-W25.md", "One.\n\nTwo.\n")
    write(folder, "weekly/notes.md", "Three.\n")
    write(folder, "2026-W25.md", "The same week again.\n")
    write(folder, "README.md", "About these notes.\n")
    done = engramlog("summaries", "import", folder, "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summaries"] == [
        {
            "name": "weekly/weekly_2026-W25.md",
            "tier": "weekly",
            "period_start": "2026-06-15",
            "paragraphs": 2,
            "asserted": 2,
            "retracted": 0,
            "changed": True,
        }
    ]
    ignored = json.loads(done.stdout)["ignored"]
    assert [each["name"] for each in ignored] == ["weekly/notes.md", "2026-W25.md"]
    assert "weekly/notes.md: ignored: its name says no day" in done.stderr
    assert "2026-W25.md: ignored: weekly/weekly_2026-W25.md is of the same period" in done.stderr
    done = engramlog("summaries", "import", folder, "--data", data)
    assert done.stdout == "recorded 0 summaries, 1 unchanged\n"
    done = engramlog("summaries", "list", "--data", data)
    assert "2026-06-15  weekly" in done.stdout
    assert engramlog("summaries", "import", folder / "none", "--data", data).returncode == 1
