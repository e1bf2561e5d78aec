"""No receipt is signed while a file of the node may hold what is erased."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.erasure_cleaning import cleaner_of
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.kinds import Value
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.audit.statement_task import StatementLimits
from engramlog.projections.authorization import everything
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardsProjector
from engramlog.projections.tables.store import current_generation, generations
from engramlog.projections.writing.commands import Done, EraseFacts
from tests.worlds.histories import asserted


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    yield node
    node.close()


def test_rows_of_a_halted_projector_are_not_called_erased(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fact,) = node.write(asserted(value=Value("string", "a secret")))
    assert isinstance(fact, Done)
    assert fact.fact_id is not None
    node.reader.digests()

    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(CardsProjector, "apply", poison)
        node.write(asserted(value=Value("string", "another")))
        node.reader.digests()
    node.write(EraseFacts(erasure_id="e", fact_ids=(fact.fact_id,)))
    archive = Archive(node.directory, node.log)
    cleaner = cleaner_of(node, archive, AuditDesk(archive))
    with pytest.raises(StorageFailed, match="projector cards is halted"):
        cleaner.clean()
    assert cleaner.unclean() == ["e"]
    node.rebuild()
    assert cleaner.clean() == ["e"]
    assert cleaner.unclean() == []


@pytest.mark.parametrize("stuck", ["projections-000001.db", "events.parquet"])
def test_a_file_that_cannot_be_removed_delays_the_receipt(
    node: Node, monkeypatch: pytest.MonkeyPatch, stuck: str
) -> None:
    (fact,) = node.write(asserted(value=Value("string", "a secret")))
    assert isinstance(fact, Done)
    assert fact.fact_id is not None
    archive = Archive(node.directory, node.log)
    desk = AuditDesk(archive)
    moment = Moment(node.log.head().position, node.clock.now_us())
    limits = StatementLimits()
    desk.ask(node.reader.pin(), everything("admin"), moment, "SELECT 1", limits, chains=False)
    node.write(EraseFacts(erasure_id="e", fact_ids=(fact.fact_id,)))
    cleaner = cleaner_of(node, archive, desk)
    unlink = os.unlink

    def unlinking(path: str | Path, **options: Any) -> None:
        if Path(path).name == stuck:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlinking)
        for _ in range(2):
            with pytest.raises(PermissionError):
                cleaner.clean()
    assert cleaner.unclean() == ["e"]
    assert cleaner.clean() == ["e"]
    link = node.directory.projections_path
    assert generations(link) == [current_generation(link)]
    assert not (archive.extracts_folder / "events.parquet").exists()
