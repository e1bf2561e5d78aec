"""An erasure that ends at a given step."""

from pathlib import Path
from unittest import mock

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.erasure_cleaning import cleaner_of
from engramlog.eventlog.kinds import Value
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.writer import Writer
from tests.worlds.dying_lives import die
from tests.worlds.histories import asserted

SECRET = "zanzibar-quokka-7741"
BEFORE_THE_LOG = "before the log"
AFTER_THE_LOG = "after the log, before the tables"


def erasure(folder: Path, step: str) -> None:
    """Erase one of 81 facts in a node with an archive and a snapshot."""
    node = Node.open(folder)
    archive = Archive(node.directory, node.log, segment_events=16)
    kept = [f"kept {n}" for n in range(40)]
    node.write(*[asserted(value=Value("string", text)) for text in (*kept, SECRET)])
    fact = list(node.reader.image.facts.slot_of)[-1]
    node.write(*[asserted(entity="user:c", value=Value("string", text)) for text in kept])
    archive.seal()
    assert len(archive.segments) == 5, archive.segments
    node.snapshot()
    if step == AFTER_THE_LOG:
        mock.patch.object(Writer, "_settle", die).start()
    if step == BEFORE_THE_LOG:
        mock.patch.object(node.log, "store", die).start()
    node.write(EraseFacts(erasure_id="the-erasure", fact_ids=(fact,)))
    cleaner = cleaner_of(node, archive, AuditDesk(archive))
    cleaner.clean(lambda name: die() if name == step else None)


def removing_old_tables(folder: Path, _point: str) -> None:
    """Rebuild, and end after the old tables' file is removed and before its write-ahead log is."""
    node = Node.open(folder)
    node.write(*[asserted(value=Value("string", text)) for text in ("kept", SECRET)])
    node.reader.digests()  # a reader keeps the write-ahead log from being removed with its writer
    known = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        known(path, missing_ok=missing_ok)
        if path.name == "projections-000001.db":
            die()

    with mock.patch.object(Path, "unlink", unlink):
        node.rebuild()
