"""A fact by itself has the state that it has among others."""

from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engramlog.api.answers.wire_facts import records_of, volatile_of, volatile_of_one
from engramlog.eventlog.kinds import TombstoneSet
from engramlog.projections.authorization import Authorization, everything
from engramlog.projections.image.view import everything as every_slot
from engramlog.projections.image.visible_facts import is_known, known
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from tests.worlds.busy_life import EVERYTHING
from tests.worlds.private_worlds import Life

OWNER = everything()
GUEST = Authorization("agent:guest", frozenset({"read"}), frozenset({"local", "public"}))
RIGHTS = {
    "owner": OWNER,
    "past tombstones": OWNER.past_tombstones(),
    "without flagged facts": OWNER.withholding(255),
    "guest": GUEST,
    "guest without confidential facts": GUEST.capped(0),
    "guest in gardens alone": replace(GUEST, only_gardens=True),
    "guest for one entity": replace(GUEST, entities=("user:",)),
}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Generator[Life]:
    life = Life(Path(tmp_path_factory.mktemp("one")) / "data", private=True)
    for step in EVERYTHING:
        life.take(step, 0)
    view = life.node.reader.pin()
    about = view.entities.text(int(view.entity[0]))
    life.node.write(
        TombstoneSet(
            tombstone_id="tomb-1", entity=about, entity_uri=about, scope="all",
            scopes=list(SCOPES), created_at="2026-01-01T00:00:00Z", signed_by="agent:t",
            key_id="", signature="", legal_hold=False,
        )
    )  # fmt: skip
    try:
        yield life
    finally:
        life.close()


@pytest.mark.parametrize("rights", RIGHTS.values(), ids=RIGHTS)
def test_a_fact_alone_is_what_it_is_in_a_list(life: Life, rights: Authorization) -> None:
    view = life.node.reader.pin()
    slots = every_slot(view)
    for position in range(1, view.position + 1):
        moment = Moment(position, life.node.log.received_at(position))
        those = known(view, rights, moment).tolist()
        assert [slot for slot in slots.tolist() if is_known(view, rights, moment, slot)] == those
        listed = volatile_of(view, np.array(those, dtype=np.int32), moment, rights)
        alone = [volatile_of_one(view, slot, moment, rights) for slot in those]
        assert alone == listed
    flags = view.flags(slots)
    assert [int(view.flags(np.int32(slot))) for slot in slots.tolist()] == flags.tolist()


def test_the_facts_differ_in_every_part_of_their_state(life: Life) -> None:
    view = life.node.reader.pin()
    moment = life.node.moment()
    slots = known(view, OWNER.past_tombstones(), moment).tolist()
    records = records_of(
        life.node.reader, view, slots, moment, OWNER.past_tombstones(), life.node.node_id
    )
    for name in ("contradicted", "source_trust", "quarantine_status", "attributes", "confidence"):
        assert len({repr(getattr(record, name)) for record in records}) > 1, name
    assert len(known(view, OWNER, moment)) < len(slots)
