"""Bytes that changed on disk: noticed by whatever reads them, with the next step in the message."""

import json
from pathlib import Path

import pytest

from tests.worlds.processes import engramlog, fact


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory whose first fact is too old for the check at the start, and is then altered."""
    folder = tmp_path / "memory"
    items = [fact(0, value={"type": "text", "v": "Ann leads the project."})]
    items += [fact(n) for n in range(1, 80)]
    stdin = b"\n".join(json.dumps(item).encode() for item in items)
    assert engramlog("import", "-", "--data", folder, "--quiet", stdin=stdin).returncode == 0
    log = folder / "log.db"
    before = log.read_bytes()
    assert before.count(b"Ann leads") == 1
    log.write_bytes(before.replace(b"Ann leads", b"Ann heads"))
    return folder


def test_an_altered_event_gets_into_no_export_and_no_table(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "export.jsonl"
    exported = engramlog("export", "--data", data, "--output", out, "--quiet")
    (data / "projections.db").unlink()
    listed = engramlog("facts", "--data", data)
    for refused in (exported, listed):
        assert refused.returncode == 1
        assert "payload does not match its commitment" in refused.stderr
        assert "engramlog restore" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert not out.exists()
