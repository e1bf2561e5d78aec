"""The journal of a log that is shorter than its readers think."""

from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.projections.audit.journal import Journal, JournalQuery
from engramlog.projections.authorization import everything
from tests.worlds.histories import asserted


def test_a_page_ends_with_a_log_that_was_cut_back(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    node.write(asserted())
    head = node.log.head().position
    journal = Journal(node.log, node.reader.pin(), everything())
    page = journal.page(JournalQuery(after=0, until=head + 5))
    node.close()
    assert [entry.event.position for entry in page.entries][-1] == head
