"""A source whose trust was set many times: the newest setting is found by itself."""

from pathlib import Path

import msgspec

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import SourceTrustSet
from engramlog.projections.tables.declared.trust import TrustAt, TrustProjector, trust_setting
from engramlog.projections.writing.commands import Done
from tests.worlds.counted_work import sql_work

SOURCE = "agent:one"
TIMES = 5_000


def test_earlier_settings_of_a_source_are_not_read(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    node.write(*(SourceTrustSet(source=SOURCE, trust=n % 100 / 100) for n in range(TIMES)))
    (last,) = node.write(SourceTrustSet(source=SOURCE, trust=0.5))
    assert isinstance(last, Done)
    head = node.log.head().position
    with node.reader.pool.connection() as db:
        assert sql_work(db, lambda db: TrustAt(db, head).of(SOURCE, 0, None)) < TIMES // 100
        assert TrustAt(db, head).of(SOURCE, 0, None) == 0.5
        assert TrustAt(db, head - 1).of(SOURCE, 0, None) == 0.99
        before = trust_setting(db, SOURCE, head - 1)
    assert before is not None
    assert before.trust == 0.99
    another = msgspec.structs.replace(last.events[0], position=head + 1)
    db = node.writer.store.db
    work = node.writer.exclusive(
        lambda: sql_work(db, lambda db: TrustProjector().apply_event(another, db))
    )
    assert work.result() < TIMES // 100
    node.close()
