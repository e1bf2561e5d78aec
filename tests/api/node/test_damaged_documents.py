"""Small files of a data directory with a byte that is no UTF-8: named like other damage."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.log_place import remembered
from engramlog.api.node.process.control_file import CONTROL_NAME, read_control
from engramlog.eventlog.directory import LOG_PLACE_FILE, HeldDirectory
from engramlog.eventlog.errors import DataDirectoryError, EventLogError, KeyFileError
from engramlog.eventlog.identity import read_node_document
from engramlog.eventlog.signing import read_heads
from engramlog.replay.backups import BackupFault, read_manifest
from engramlog.replay.replication.state import STATE_FILE, load_state
from engramlog.replay.snapshot import SnapshotFault, decode_snapshot


@pytest.mark.parametrize(
    ("file", "field", "read", "error"),
    [
        ("node.json", "node_id", read_node_document, KeyFileError),
        (LOG_PLACE_FILE, "url", remembered, DataDirectoryError),
        (STATE_FILE, "node_id", load_state, DataDirectoryError),
        ("heads.json", "node_id", lambda folder: read_heads(folder / "heads.json"), EventLogError),
        ("manifest.json", "node_id", read_manifest, BackupFault),
        (
            "snapshot.json",
            "hash",
            lambda folder: decode_snapshot((folder / "snapshot.json").read_bytes()),
            SnapshotFault,
        ),
    ],
)
def test_a_document_that_is_no_utf8_cannot_be_read(
    tmp_path: Path, file: str, field: str, read: Callable[[Path], Any], error: type[Exception]
) -> None:
    (tmp_path / file).write_bytes(b'{"%s":"\xff"}' % field.encode())
    with pytest.raises(error, match="cannot"):
        read(tmp_path)


def test_a_place_file_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    HeldDirectory.open(tmp_path / "data").close()
    (tmp_path / "data" / "identity" / "place.json").write_bytes(b'{"machine":"\xff"}')
    with pytest.raises(DataDirectoryError, match="remove it, unless"):
        HeldDirectory.open(tmp_path / "data")


def test_a_control_file_that_is_no_utf8_leads_to_no_node(tmp_path: Path) -> None:
    (tmp_path / CONTROL_NAME).write_bytes(b'{"url":"\xff"}')
    assert read_control(tmp_path) is None
