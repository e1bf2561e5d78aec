"""A resolution's note is about the facts it settled, in any order of arrival."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from engramlog.api.node.node import Node
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import TombstoneSet, Value
from engramlog.projections.authorization import Authorization
from engramlog.projections.contradictions.conflicts import conflict_between
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import Done, ResolveConflict
from tests.worlds.histories import ALL_SCOPES, asserted

RIGHTS = Authorization("agent:reader", frozenset({"read"}), frozenset(ALL_SCOPES))
TOMBSTONE = TombstoneSet(
    tombstone_id="tomb-1", entity="user:ann", entity_uri="user:ann", scope="all",
    scopes=sorted(ALL_SCOPES), created_at="2026-01-01T00:00:00Z", signed_by="agent:t",
    key_id="", signature="", legal_hold=False,
)  # fmt: skip


@pytest.fixture
def events(node: Node) -> dict[str, Recorded]:
    """Two facts, the note of their resolution, the resolution, and the entity's tombstone."""
    first, second = (
        node.write(asserted(entity="user:ann", value=Value("string", v), source=f"agent:{v}"))[0]
        for v in "ab"
    )
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    newer, older = str(second.fact_id), str(first.fact_id)
    view = node.reader.pin()
    conflict = conflict_between(node.reader, view, RIGHTS, node.moment(), newer, older)
    assert conflict is not None
    settled = ResolveConflict(
        conflict_id=conflict.row.conflict_id, winning_fact_id=str(second.fact_id),
        source="agent:judge"
    )  # fmt: skip
    node.write(settled)
    node.write(TOMBSTONE)
    names = ("loser", "winner", "note", "resolution", "tombstone")
    return dict(zip(names, node.log.read(node.log.head().position - 5, 5), strict=True))


@pytest.mark.parametrize(
    "order",
    [
        "loser winner note resolution tombstone",
        "note resolution tombstone loser winner",
        "note resolution winner tombstone loser",
        "resolution tombstone winner loser note",
        "tombstone loser note resolution winner",
    ],
)
def test_a_note_is_hidden_with_its_entity(
    tmp_path: Path, events: dict[str, Recorded], order: str
) -> None:
    came = [replace(events[name], position=n) for n, name in enumerate(order.split(), 1)]
    folded, loaded = _images(tmp_path, came)
    assert folded.resolutions.notes() == loaded.resolutions.notes() != {}
    pairs = [image.resolutions.pairs() for image in (folded, loaded)]
    assert len(pairs[0][0]) == 2, "the note with each side"
    assert [each.tolist() for each in pairs[0]] == [each.tolist() for each in pairs[1]]
    for image in (folded, loaded):
        view = View(image)
        moment = Moment(view.position, came[-1].received_at)
        assert live(view, RIGHTS, moment, include_retracted=True).tolist() == []


def _images(tmp_path: Path, came: list[Recorded]) -> tuple[MemoryImage, MemoryImage]:
    """The image folded from events, and the one loaded from their tables."""
    folded, loaded = MemoryImage(), MemoryImage()
    store = ProjectionStore(tmp_path / "tables.db")
    for event in came:
        folded.apply([event], event.position)
        folded.resolutions.pairs()  # as readers ask between events
        with store.db:
            store.apply([event])
    loaded.load(store.db, len(came))
    store.close()
    return folded, loaded


def _came_from_a_peer(events: dict[str, Recorded], origin: str) -> list[Recorded]:
    """The events with their order as positions, the resolution as one of node ``origin``."""
    found: list[Recorded] = []
    for position, (name, event) in enumerate(events.items(), 1):
        came = replace(event, position=position)
        if name == "resolution":
            came = replace(came, peer=origin, header=replace(came.header, origin=origin))
        found.append(came)
    return found


@pytest.mark.parametrize("own", [True, False], ids=["the note's node", "another node"])
def test_only_a_notes_own_node_decides_its_facts(
    tmp_path: Path, events: dict[str, Recorded], own: bool
) -> None:
    origin = events["note"].header.origin if own else "stigmem://other.example"
    came = _came_from_a_peer({k: e for k, e in events.items() if k != "loser"}, origin)
    for image in _images(tmp_path, came):
        notes = image.resolutions.notes()
        shown = live(View(image), RIGHTS, Moment(len(came), came[-1].received_at))
        assert (len(notes), len(shown)) == ((1, 0) if own else (0, 1))
