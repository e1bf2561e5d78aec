"""Tables that are damaged while an image file hides it: reads say so, and a rebuild mends them."""

from pathlib import Path

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.storage_faults import TablesDamaged
from engramlog.projections.tables.store import current_generation
from engramlog.projections.writing.commands import Done
from tests.worlds.histories import asserted

FACTS = 300


def say(node: Node, number: int) -> Done:
    value = Value("string", f"v{number}" * 20)
    (outcome,) = node.write(asserted(value=value, relation=f"memory:r{number}"))
    assert isinstance(outcome, Done)
    return outcome


def zero_pages(file: Path, table: str) -> None:
    """Overwrite the inner leaves of a table."""
    db = apsw.Connection(str(file))
    size = int(db.pragma("page_size"))
    pages = [
        int(number)
        for (number,) in db.execute(
            "SELECT pageno FROM dbstat WHERE name=? AND pagetype='leaf' ORDER BY path", (table,)
        )
    ]
    db.close()
    with file.open("r+b") as content:
        for number in pages[1:-1]:
            content.seek((number - 1) * size)
            content.write(bytes(size))


@pytest.fixture
def said(tmp_path: Path) -> list[str]:
    """The facts of a node whose tables were damaged while it was stopped."""
    node = Node.open(tmp_path / "data")
    facts = [str(say(node, number).fact_id) for number in range(FACTS)]
    assert node.kept_image.write()
    node.close()
    file = current_generation(node.directory.projections_path)
    assert file is not None
    zero_pages(file, "fact_rows")
    return facts


def test_reads_name_the_remedy_and_a_rebuild_mends(tmp_path: Path, said: list[str]) -> None:
    node = Node.open(tmp_path / "data")
    old = current_generation(node.directory.projections_path)
    positions = list(range(1, node.log.head().position))
    with pytest.raises(TablesDamaged, match="engramlog rebuild"):
        node.reader.said(positions)
    assert not node.rebuild().compared
    assert {row.id for row in node.reader.said(positions)} == set(said[:-1])
    assert current_generation(node.directory.projections_path) != old
    node.close()


def test_a_text_that_is_no_utf8_is_damage(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    fact = say(node, 0).fact_id
    node.reader.image.tail.settle()
    position = node.log.head().position
    node.writer.store.db.execute("UPDATE fact_rows SET value_v=CAST(x'61ff' AS TEXT)")
    with pytest.raises(TablesDamaged, match="engramlog rebuild"):
        node.reader.said([position])
    node.close()
    node = Node.open(tmp_path / "data")  # reads the tables, and makes them again
    assert [row.id for row in node.reader.said([position])] == [fact]
    node.close()


def test_tables_too_damaged_to_follow_are_mended_too(tmp_path: Path, said: list[str]) -> None:
    node = Node.open(tmp_path / "data")
    zero_pages(node.writer.store.path, "facts_by_key")
    last = say(node, FACTS)
    with pytest.raises(TablesDamaged):
        node.reader.image.tail.settle()
    assert status_of_node(node)["degraded"] is not None
    node.rebuild()
    again = say(node, FACTS + 1)
    assert status_of_node(node)["degraded"] is None
    assert {last.fact_id, again.fact_id, *said} == {
        row.id for row in node.reader.said(list(range(1, node.log.head().position + 1)))
    }
    node.close()


def test_tables_that_were_removed_are_made_again_by_a_rebuild(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    say(node, 1)
    for file in (tmp_path / "data").glob("projections*"):
        file.unlink()
    assert not node.rebuild().compared
    assert status_of_node(node)["degraded"] is None
    say(node, 2)
    node.close()
    again = Node.open(tmp_path / "data")
    assert again.rebuild().compared
    again.close()


def test_tables_that_no_new_connection_can_open_are_mended_too(
    tmp_path: Path, said: list[str]
) -> None:
    node = Node.open(tmp_path / "data")
    with node.writer.store.path.open("r+b") as content:
        content.write(b"x" * 65_536)
    last = say(node, FACTS)
    assert not node.rebuild().compared
    assert {last.fact_id, *said} == {
        row.id for row in node.reader.said(list(range(1, node.log.head().position + 1)))
    }
    node.close()


def test_new_tables_bring_a_new_image(tmp_path: Path) -> None:
    """The image file was made from the tables that were wrong."""
    node = Node.open(tmp_path / "data")
    fact = str(say(node, 1).fact_id)
    node.close()
    link = node.directory.projections_path
    file = current_generation(link)
    assert file is not None
    with apsw.Connection(str(file)) as db:
        db.execute("UPDATE fact_rows SET base_confidence = 0.25")
    node = Node.open(tmp_path / "data")
    assert confidence(node, fact) == 0.25
    assert node.kept_image.write()
    node.close()
    link.unlink()
    node = Node.open(tmp_path / "data")
    assert confidence(node, fact) == 1.0
    node.close()


def confidence(node: Node, fact: str) -> float:
    """The confidence that the memory image has."""
    slot = node.reader.slot_of(fact)
    assert slot is not None
    return float(node.reader.pin().base[slot])
