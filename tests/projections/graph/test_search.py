"""Search as you type reads few facts if many match, and all if few do."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from engramlog.projections.arrays import I32, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns import substring_index
from engramlog.projections.columns.substring_index import Folded
from engramlog.projections.graph import search as searching
from engramlog.projections.graph.search import NamedEntity, search
from engramlog.projections.image.fact_texts import PieceOfFacts
from engramlog.projections.moment import Moment
from tests.worlds.histories import asserted

FACTS = 600
RIGHTS = Authorization(
    principal="agent:a", permissions=frozenset({"read"}), scopes=frozenset({"company"})
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Facts that all contain "ledger"; only the first contains "falcon"."""
    opened = Node.open(tmp_path_factory.mktemp("search") / "data")
    said = ["falcon ledger", *(f"ledger entry {number}" for number in range(1, FACTS))]
    facts = [
        asserted(f"user:u{n // 5}", f"memory:r{n % 5}", Value("text", text), scope="company")
        for n, text in enumerate(said)
    ]
    opened.write(*facts)
    yield opened
    opened.close()


def found(node: Node, text: str, at: int | None = None, limit: int = 5) -> list[str]:
    view = node.reader.pin()
    moment = Moment(at or view.position, 2**60)
    slots = search(view, RIGHTS, moment, text, (), limit).slots
    return [row.value_v for row in node.reader.rows(view.from_position[slots].tolist())]


def test_of_many_matches_the_newest_are_put_in_order(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_LOOK", 16)
    monkeypatch.setattr(searching, "COMPARED_MAX", 10)
    newest = {f"ledger entry {number}" for number in range(FACTS - 10, FACTS)}
    assert set(found(node, "ledger")) <= newest
    assert found(node, "ledger falcon") == ["falcon ledger"], "the only one is the oldest"
    assert found(node, "nowhere ledger") == []


def test_a_name_is_found_whole_then_by_its_beginning_then_by_that_of_a_word(
    tmp_path: Path,
) -> None:
    names = ["user:subledger", "user:old-ledger", "user:ledger-book", "user:ledger"]
    node = Node.open(tmp_path / "data")
    try:
        node.write(*(asserted(name, scope="company") for name in names))
        view = node.reader.pin()
        hits = search(view, RIGHTS, Moment(view.position, 2**60), "ledger", (), 5)
        assert [each.entity for each in hits.entities] == names[::-1]
        aliases = [
            ("user:lizzie", "user:ledger"),
            ("user:ann", names[0]),
            ("user:lizzies", "user:x"),
        ]
        hits = search(view, RIGHTS, Moment(view.position, 2**60), "liz zie", aliases, 5)
        assert hits.entities == [NamedEntity("user:ledger", 1, "user:lizzie")]
    finally:
        node.close()


def test_the_past_is_searched_as_it_was(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST_LOOK", 4)
    monkeypatch.setattr(searching, "COMPARED_MAX", 3)
    early = int(node.reader.pin().from_position[9])  # ten facts were known
    assert set(found(node, "ledger", at=early)) == {f"ledger entry {n}" for n in (7, 8, 9)}


def test_a_frequent_word_is_searched_in_few_facts(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_LOOK", 32)
    monkeypatch.setattr(searching, "COMPARED_MAX", 20)
    looked: list[int] = []
    plain = PieceOfFacts.anywhere

    def counted(self: PieceOfFacts, slots: I32) -> Bool:
        looked.append(len(slots))
        return plain(self, slots)

    monkeypatch.setattr(PieceOfFacts, "anywhere", counted)
    assert len(found(node, "led")) == 5
    assert sum(looked) == 32
    looked.clear()
    assert found(node, "falcon") == ["falcon ledger"]
    assert sum(looked) == FACTS


def test_holding_agrees_with_counts() -> None:
    texts = ["aaa", "", "b", *(["xay"] * 3_000), "ab" * 900, "aé", "b"]
    folded = Folded(lambda start: texts[start:])
    numbers = np.arange(len(texts), dtype=np.int32)
    for piece in ("a", "aa", "ab", "b", "xay", "nothing", "e"):
        held = folded.holding(piece)[numbers]
        assert held.tolist() == [piece in text.replace("é", "e") for text in texts], piece
        assert ((folded.counts(piece) > 0) == held).all()
    assert folded.counts("aa")[0] == 2, "places overlap"


def test_a_search_reads_only_the_blocks_of_the_texts_in_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(substring_index, "BLOCK", 5)
    texts = [f"tea {n}" for n in range(40)]
    held = Folded(lambda start: texts[start:]).holding("39")
    assert held[np.array([0, 39], dtype=np.int32)].tolist() == [False, True]
    assert len(held._held) == 2


def test_hidden_facts_do_not_decide_which_entities_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hidden fact names an entity before others do."""
    monkeypatch.setattr(searching, "COMPARED_MAX", 1)
    for earlier in ("user:b", "user:c"):
        with closing(Node.open(tmp_path / earlier[-1])) as opened:
            opened.write(
                asserted(earlier, "memory:r", Value("text", "ledger"), scope="team"),
                asserted("user:c", "memory:r", Value("text", "ledger"), scope="company"),
                asserted("user:b", "memory:r", Value("text", "ledger"), scope="company"),
            )
            view = opened.reader.pin()
            hits = search(view, RIGHTS, Moment(view.position, 2**60), "user", (), 5)
            assert [each.entity for each in hits.entities] == ["user:b"]
