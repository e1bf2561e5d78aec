"""An erasure interrupted by ``kill -9`` at any step completes at the next start."""

from pathlib import Path

import pytest

from engramlog.projections.tables.facts.erasures import unclean
from engramlog.replay.verify import verify
from tests.worlds.data_files import files_with
from tests.worlds.dying_erasures import (
    AFTER_THE_LOG,
    BEFORE_THE_LOG,
    SECRET,
    erasure,
    removing_old_tables,
)
from tests.worlds.dying_lives import lived
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.processes import NodeProcess, fact

STEPS = (
    "recall receipts", "log", "snapshots", "tables", "vectors", "archive", "audit files",
    "memory image", "receipt",
)  # fmt: skip
CUT_SHORT = (AFTER_THE_LOG, *STEPS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory for each step at which its erasure was interrupted."""
    made = {
        step: tmp_path_factory.mktemp("erasing") / "data" for step in (BEFORE_THE_LOG, *CUT_SHORT)
    }
    lived(erasure, {folder: step for step, folder in made.items()})
    return made


@pytest.mark.parametrize("step", CUT_SHORT)
def test_the_next_start_completes_an_interrupted_erasure(
    folders: dict[str, Path], step: str
) -> None:
    folder = folders[step]
    taken = "snapshots" in str(files_with(folder, SECRET.encode()))
    assert taken == (step in CUT_SHORT[:4])
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


def test_an_erasure_that_never_reached_the_log_never_was(folders: dict[str, Path]) -> None:
    folder = folders[BEFORE_THE_LOG]
    live = LiveNode(folder)
    try:
        assert live.node.reader.ask(unclean) == []
        assert len(live.node.reader.image.facts.slot_of) == 81
        assert archived(folder)
    finally:
        live.close()


def test_an_erasure_reaches_the_rest_of_tables_whose_removal_was_interrupted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    lived(removing_old_tables, {folder: "the old tables' file is removed"})
    assert "projections-000001.db-wal" in files_with(folder, SECRET.encode())
    live = LiveNode(folder)
    try:
        gone = list(live.node.reader.image.facts.slot_of)[-1]
        told = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json={"fact_ids": [gone]})
        assert told.status_code in (200, 201, 202), told.text
        assert live.run(live.service().cleaning.wait(told.json()["erasure_id"], 30))
        assert files_with(folder, SECRET.encode()) == {}
    finally:
        live.close()


def test_an_erasure_reaches_the_extracts_of_a_node_that_was_killed(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "data", tmp_path / "tmp"
    temporary.mkdir()
    node = NodeProcess(folder, "--no-auth", env={"TMPDIR": str(temporary)}).wait_ready()
    said = {"type": "string", "v": SECRET}
    fact_id = node.client(node.control.token).post("/v1/facts", fact(1, value=said))["id"]
    statement = {"sql": "SELECT count(*) FROM facts"}
    node.client(node.control.token).post("/v1/time-travel/sql", statement)
    node.kill()
    assert extracts_with_secret(tmp_path)
    live = LiveNode(folder)
    try:
        asked = {"fact_ids": [fact_id], "wait": True, "timeout_s": 30}
        told = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=asked)
        assert told.json()["status"] == "clean", told.text
        assert extracts_with_secret(tmp_path) == []
    finally:
        live.close()


def extracts_with_secret(folder: Path) -> list[Path]:
    """Parquet files below a folder that contain the secret."""
    import duckdb

    sql = "SELECT count(*) FROM read_parquet(?) AS row WHERE contains(row::VARCHAR, ?)"
    with duckdb.connect() as db:
        return [
            path
            for path in folder.rglob("*.parquet")
            if db.execute(sql, [str(path), SECRET]).fetchone() != (0,)
        ]


def archived(folder: Path) -> bool:
    """Whether any file of the archive holds the secret, uncompressed."""
    import duckdb

    files = [str(path) for path in (folder / "archive").rglob("*.parquet")]
    assert files
    with duckdb.connect() as db:
        sql = "SELECT count(*) FROM read_parquet(?) WHERE contains(coalesce(detail, ''), ?)"
        (found,) = db.execute(sql, [files, SECRET]).fetchone() or (0,)
    return bool(found)
