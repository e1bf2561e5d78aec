"""Connections have the settings of their openers."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from engramlog.projections.embedding.vectors.vec_facts import open_vectors
from engramlog.projections.tables.database import open_reader, open_writer

OFF, NORMAL = 0, 1


def said(db: apsw.Connection, *names: str) -> list[object]:
    return [db.execute(f"PRAGMA {name}").fetchall()[0][0] for name in names]


@pytest.mark.parametrize("opened", [open_writer, open_vectors])
def test_tables_follow_the_log_without_a_sync_of_their_own(
    tmp_path: Path, opened: Callable[[Path], apsw.Connection]
) -> None:
    db = opened(tmp_path / "tables.db")
    assert said(db, "journal_mode", "synchronous", "secure_delete") == ["wal", NORMAL, 1]
    db.close()


def test_a_file_that_is_built_aside_is_not_durable_before_it_is_complete(tmp_path: Path) -> None:
    db = open_writer(tmp_path / "tables.db", bulk=True)
    settings = said(db, "journal_mode", "synchronous", "locking_mode")
    assert settings == ["memory", OFF, "exclusive"]
    db.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    open_writer(tmp_path / "tables.db").close()
    db = open_reader(tmp_path / "tables.db")
    assert said(db, "query_only") == [1]
    db.close()
