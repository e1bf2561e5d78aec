"""An erasure cut short by ``kill -9`` at any step is completed by the next start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engramlog.projections.tables.facts.erasures import unclean
from engramlog.replay.verify import verify
from tests.worlds.data_files import files_with
from tests.worlds.live import CONTROL_TOKEN, LiveNode

SECRET = "zanzibar-quokka-7741"
STEPS = (
    "recall receipts", "log", "snapshots", "tables", "vectors", "archive", "audit files",
    "memory image", "receipt",
)  # fmt: skip
CHILD = f"""
import os, signal, sys
from pathlib import Path
from engramlog.api.node.tasks.erasure_cleaning import cleaner_of
from engramlog.api.node.node import Node
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.writer import Writer
from tests.worlds.histories import asserted
from engramlog.eventlog.kinds import Value

def die():
    os.kill(os.getpid(), signal.SIGKILL)

folder, step = Path(sys.argv[1]), sys.argv[2]
node = Node.open(folder)
archive = Archive(node.directory, node.log, segment_events=16)
intents = [asserted(value=Value("string", "kept %d" % n)) for n in range(40)]
node.write(*intents, asserted(value=Value("string", {SECRET!r})))
fact = list(node.reader.image.facts.slot_of)[-1]
node.write(*[asserted(entity="user:c", value=Value("string", "kept %d" % n)) for n in range(40)])
archive.seal()
assert len(archive.segments) == 5, archive.segments
node.snapshot()
if step == "after the log, before the tables":
    Writer._settle = lambda *_: die()
if step == "before the log":
    Writer._settle = None
    node.log.store = lambda *_: die()
node.write(EraseFacts(erasure_id="the-erasure", fact_ids=(fact,)))
cleaner_of(node, archive, AuditDesk(archive)).clean(lambda name: die() if name == step else None)
raise SystemExit("lived through every step")
"""


def cut_short(folder: Path, step: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), step], check=False, timeout=120
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["after the log, before the tables", *STEPS])
def test_the_next_start_completes_what_was_begun(tmp_path: Path, step: str) -> None:
    folder = tmp_path / "data"
    cut_short(folder, step)
    taken = "snapshots" in str(files_with(folder, SECRET.encode()))
    assert taken == (step in ("after the log, before the tables", *STEPS[:3]))
    live = LiveNode(folder)
    try:
        service = live.service()
        assert live.run(service.cleaning.wait("the-erasure", 30)), service.cleaning.error
        found = live.call("GET", "/v1/erasures/the-erasure", key=CONTROL_TOKEN).json()
        assert found["status"] == "clean"
        assert files_with(folder, SECRET.encode()) == {}
        assert not archived(folder)
        assert verify(live.node.log).fault is None
        assert live.node.rebuild().compared
        assert len(live.node.reader.image.facts.slot_of) == 80
    finally:
        live.close()


def test_an_erasure_that_never_reached_the_log_never_was(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    cut_short(folder, "before the log")
    live = LiveNode(folder)
    try:
        assert live.node.reader.ask(unclean) == []
        assert len(live.node.reader.image.facts.slot_of) == 81
        assert archived(folder)
    finally:
        live.close()


def archived(folder: Path) -> bool:
    """Whether any file of the archive holds the secret, uncompressed."""
    import duckdb

    files = [str(path) for path in (folder / "archive").rglob("*.parquet")]
    assert files
    with duckdb.connect() as db:
        sql = "SELECT count(*) FROM read_parquet(?) WHERE contains(coalesce(detail, ''), ?)"
        (found,) = db.execute(sql, [files, SECRET]).fetchone() or (0,)
    return bool(found)
