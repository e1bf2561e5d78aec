"""A peer's tombstone counts again only where it now reaches further."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.writing.commands import Refused
from tests.worlds.histories import START_US

SIGNED: dict[str, Any] = {
    "created_at": "2026-01-01T00:00:00Z",
    "signed_by": "agent:admin",
    "key_id": "key-1",
    "signature": "checked elsewhere",
    "node_id": "stigmem:node:peer",
}
STONE = TombstoneSet(
    tombstone_id="tomb_1", entity="user:a", entity_uri="user:a", scope="all",
    scopes=["company", "public"], **SIGNED,
)  # fmt: skip
WIDER = ["company", "public", "team"]


@pytest.mark.parametrize(
    ("change", "revoked", "again"),
    [
        ({"scopes": WIDER}, False, True),
        ({}, False, False),
        ({"scopes": ["company"]}, False, False),
        ({"scopes": ["company", "team"]}, False, False),
        ({"scopes": WIDER, "signature": "another"}, False, False),
        ({"scopes": WIDER}, True, False),
        ({"scopes": WIDER, "node_id": "stigmem:node:other"}, True, True),
    ],
)
def test_a_known_tombstone_stands_again_only_in_force_and_in_more_scopes(
    tmp_path: Path, change: dict[str, Any], revoked: bool, again: bool
) -> None:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    try:
        node.write(STONE)
        if revoked:
            node.write(
                TombstoneRevoked(revocation_id="r", tombstone_id="tomb_1", reason="", **SIGNED)
            )
        (outcome,) = node.write(replace(STONE, **change))
        if again:
            assert not isinstance(outcome, Refused)
        else:
            assert isinstance(outcome, Refused)
            assert outcome.code == "tombstone_already_exists"
    finally:
        node.close()
