"""A network of nodes without sockets: pages may be lost, late, repeated or old; nodes may restart.

One seed determines everything random, so a schedule can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from engramlog.eventlog.signing import SignedHeads
from engramlog.projections.tables.declared.garden_directory import gardens_of_scopes
from engramlog.projections.tables.digest import Digests
from engramlog.projections.tables.peers.peers import PeerRow, load_peer_streams
from engramlog.projections.tables.peers.remote_retractions import erased_elsewhere
from engramlog.projections.writing.commands import Command, Done, WriteAnswer
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.federation.page import StreamPage
from engramlog.replay.federation.pulling import Here, PeerUnreachable, Pulled, pull
from engramlog.replay.federation.serving import offered, read_page, signed_streams

START_US = 1_700_000_000_000_000
SCOPES = ("company", "public")
GRANTS = PeerGrants(scopes=list(SCOPES), retract_foreign=True, resolve_foreign=True)


class Member:
    """One node of the network, with its own directory; ``node``: one that is open."""

    def __init__(
        self,
        folder: Path,
        name: str,
        skew_us: int = 0,
        *,
        clock: FixedClock | None = None,
        node: Node | None = None,
    ) -> None:
        self.name = name
        self.folder = folder / name
        self.clock = clock or FixedClock(START_US + skew_us)
        self.node = node or Node.open(self.folder, clock=self.clock)
        self.waits: dict[str, int] = {}

    @property
    def id(self) -> str:
        return self.node.identity.node_id

    def restart(self) -> None:
        """Stop and open again, as after a crash between transactions."""
        self.node.close()
        self.node = Node.open(self.folder, clock=self.clock)

    def submit(self, intents: Sequence[Command]) -> WriteAnswer:
        return self.node.writer.submit(intents, actor="system:t", atomic=True).result()

    def meet(self, other: Member, grants: PeerGrants = GRANTS) -> None:
        """Declare and approve another node as a peer here."""
        identity = other.node.identity
        declared = PeerDeclared(
            peer_id=f"peer-{other.name}",
            node_id=identity.node_id,
            node_url="http://127.0.0.1:1",
            public_key=identity.public_key_b64,
            allowed_scopes=list(SCOPES),
            signed_at="",
            signature="",
        )
        approved = PeerStateSet(peer_id=f"peer-{other.name}", state="active", grants=grants)
        for outcome in self.submit([declared, approved, TakeForeignEnds()]).outcomes:
            assert isinstance(outcome, Done), outcome

    def peer(self, other: Member) -> PeerRow:
        (found,) = [row for row in self.node.reader.peers if row.node_id == other.id]
        return found

    def pull(self, source: Link, pages_max: int = 1_000_000) -> Pulled:
        """One round with a peer."""
        known = {each.stream: each for each in self.node.reader.ask(load_peer_streams)}
        return pull(source, self.here(), self.peer(source.server), known, pages_max=pages_max)

    def here(self) -> Here:
        """This node's interface for replaying."""
        node, own = self.node, self.id
        return Here(
            node.log,
            self.submit,
            self.clock.now_us,
            lambda events, origin: node.reader.ask(erased_elsewhere, events, origin, own),
            self.waits,
        )

    def digests(self) -> Digests:
        return self.node.reader.digests()

    def close(self) -> None:
        self.node.close()


class Link:
    """``client``'s view of ``server``: its real answers, old ones, or none."""

    def __init__(
        self,
        client: Member,
        server: Member,
        chance: random.Random | None = None,
        steps: tuple[int, ...] = (1, 2, 3),
    ) -> None:
        self.client = client
        self.server = server
        self._chance = chance
        self._steps = steps
        self._old: list[SignedHeads] = []

    def heads(self) -> SignedHeads:
        self._maybe_cut()
        server = self.server
        heads = server.node.log.stream_heads()
        gardens = server.node.reader.ask(gardens_of_scopes, SCOPES)
        names = offered(server.peer(self.client), heads, server.id, SCOPES, gardens)
        chosen = {name: heads[name] for name in names}
        return signed_streams(server.node.identity, chosen, server.clock.now_us())

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        self._maybe_cut()
        if self._chance is not None:
            limit = self._chance.choice((*self._steps, limit))  # pages end anywhere
        server = self.server
        return read_page(
            server.node.identity, server.node.log, stream, after_seq, limit, server.clock.now_us()
        )

    def _maybe_cut(self) -> None:
        if self._chance is not None and self._chance.random() < 0.2:
            raise PeerUnreachable("cut")
