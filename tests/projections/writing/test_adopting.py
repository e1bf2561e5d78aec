"""A verified page is adopted only if nothing has changed since its verification."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from engramlog.projections.writing.commands import Done, Refused
from engramlog.projections.writing.peer_commands import AdoptPage
from tests.worlds.histories import START_US, asserted

PEER = PeerDeclared(
    peer_id="peer-1",
    node_id="stigmem:node:peer",
    node_url="https://peer.example",
    public_key="checked elsewhere",
    allowed_scopes=["company", "public"],
    signed_at="2026-01-01T00:00:00Z",
    signature="checked elsewhere",
)
STREAM = f"{PEER.node_id}/1/scope/company"


def test_a_page_is_adopted_under_the_grants_it_was_verified_with_and_not_while_it_is_held(
    tmp_path: Path,
) -> None:
    granted = PeerGrants(scopes=["company"])
    page = AdoptPage(
        node_id=PEER.node_id, grants=granted, stream=STREAM, first_seq=1, events=(),
        fact_ids=(), statement={},
    )  # fmt: skip
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))

    def refused(page: AdoptPage = page, **change: Any) -> str | None:
        """Why the page is refused after a change of the peer's state."""
        if change:
            node.write(PeerStateSet(peer_id=PEER.peer_id, **change))
        (outcome,) = node.write(page)
        assert isinstance(outcome, Done | Refused)
        return outcome.code if isinstance(outcome, Refused) else None

    try:
        node.write(PEER)
        assert refused() == "peer_not_approved"
        assert refused(state="active", grants=granted) is None
        assert refused(stream=STREAM, held=True) == "stream_held"
        assert refused(replace(page, stream=f"{PEER.node_id}/1/scope/public")) is None
        assert refused(stream=STREAM, held=False) is None
        (ours,) = node.write(asserted())
        assert isinstance(ours, Done)
        assert refused(replace(page, fact_ids=(str(ours.fact_id),))) == "fact_id_taken"
        assert refused(grants=PeerGrants(scopes=["public"])) == "grants_changed"
        assert refused(state="revoked") == "peer_not_approved"
    finally:
        node.close()
