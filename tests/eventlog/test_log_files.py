"""The files of an open log that are cut off, or out of reach: it takes no writes that would be
lost."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from engramlog.eventlog.engines.sqlite import log as sqlite_log
from engramlog.eventlog.errors import StorageFailed
from engramlog.replay.verify import verify
from tests.worlds.samples import erase, fact, facts, open_log


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_a_log_that_is_cut_off_takes_no_writes_that_would_leave_holes(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "log.db"
    with open_log(path) as log:
        log.append(facts(5))
    with open_log(path) as log:
        log.append([fact()])
        log.append([fact()])
        whole = path.read_bytes()
        os.truncate(tmp_path / name, 0)
        with pytest.raises(StorageFailed, match=rf"{name} was cut off .* restore a backup"):
            log.append([fact()])
        assert log.fault is not None
        assert log.head().position == 7
    if name == "log.db-wal":  # what had reached the database stays
        assert path.read_bytes() == whole
        with open_log(path) as log:
            assert (log.head().position, verify(log).fault) == (5, None)


def test_a_log_takes_writes_after_its_files_were_rewritten_smaller(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with open_log(path) as log:
        events = log.append(facts(200)).events
        log.append([fact()])
        size = path.stat().st_size + path.with_name("log.db-wal").stat().st_size
        erase(log, *events)
        log.scrub()
        assert path.stat().st_size + path.with_name("log.db-wal").stat().st_size < size
        log.append([fact()])
        assert (log.fault, verify(log).fault) == (None, None)


def test_a_log_that_cannot_be_looked_at_takes_no_writes_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with open_log(tmp_path / "log.db") as log:
        log.append([fact()])
        with monkeypatch.context() as failing:
            failing.setattr(sqlite_log, "os", SimpleNamespace(stat=fail))
            with pytest.raises(StorageFailed, match=r"log\.db: Input/output error"):
                log.append([fact()])
            assert log.fault == f"the log takes no writes: {tmp_path}/log.db: Input/output error"
        log.append([fact()])
        assert (log.fault, log.head().position) == (None, 2)
