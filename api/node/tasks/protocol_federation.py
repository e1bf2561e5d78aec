"""The protocol's federation as a service of the node: authenticates peers and pulls them.

Each peer has its own task, so that a slow or broken one delays no other.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from msgspec import Struct

from engramlog.api.client.peer_source import HttpFactSource, PeerBusy, PeerSession
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.peering import PeerReplay, check_peer
from engramlog.api.node.tasks.task import LoopTask, TaskStatus
from engramlog.api.settings import Settings
from engramlog.eventlog.kinds import PeerStateSet
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.projections.tables.peers.protocol_facts import ForeignPages, foreign_pages
from engramlog.projections.writing.commands import Refused, WriteAnswer
from engramlog.projections.writing.peer_commands import ReceiveForeign
from engramlog.projections.writing.submission import ReplicaReadOnly, WriterBusy, WriterClosed
from engramlog.replay.stigmem.peer_token import (
    Nonces,
    PeerClaims,
    PeerTokenError,
    check_peer_token,
    sign_peer_token,
)
from engramlog.replay.stigmem.pulling import PeerFault, RoundReport, pull_round
from engramlog.replay.stigmem.records import RecordBounds

LOOK_SECONDS = 0.5
"""The interval between looks at the list of peers."""
BACKOFF_SECONDS_MAX = 60.0
ACTOR = "system:engramlog:federation"

_log = logging.getLogger(__name__)


class PullState(Struct):
    """The state of a peer: the last round, and why the last attempt failed, if it did."""

    rounds: int = 0
    report: RoundReport | None = None
    fault: str | None = None


async def take(node: Node, check: Callable[[], None], command: ReceiveForeign) -> dict[str, str]:
    """Write a page of foreign facts; the outcome of each, by its id at the peer. ``check``: as
    ``Writer.submit``."""
    future = node.writer.submit([command], actor=ACTOR, atomic=True, check=check)
    outcome = (await asyncio.wrap_future(future)).outcomes[0]
    assert not isinstance(outcome, Refused)  # the writer refuses single facts, never pages
    states: dict[str, str] = outcome.detail["states"]
    return states


class ProtocolFederation(LoopTask):
    """See the module. ``states``: by node id, the state of pulling each peer."""

    def __init__(self, node: Node, settings: Settings, peers: PeerReplay) -> None:
        super().__init__("peer_pulls")
        self.peers = peers.rows
        self._open_scopes = peers.open_scopes
        self.states: dict[str, PullState] = {}
        self._node = node
        self._settings = settings
        self._nonces = Nonces(self._now_ms())
        self._pulled: dict[str, PeerRow] = {}
        self._noting: dict[str, Future[WriteAnswer]] = {}
        self._session: PeerSession | None = None
        self._shared: dict[str, frozenset[str]] = {}

    def peer_of(self, header: str | None) -> tuple[PeerRow, PeerClaims]:
        """The peer behind an Authorization header. Raises PeerTokenError."""
        peer, claims = self._identified(header, self._nonces)
        self._note_key(peer)
        return peer, claims

    def unchanged(self, header: str | None, peer: PeerRow) -> bool:
        """Whether the peer of this header is approved as it was in ``peer``; in any thread. Raises
        PeerTokenError."""
        return self._identified(header, None)[0].approval == peer.approval

    def _identified(self, header: str | None, nonces: Nonces | None) -> tuple[PeerRow, PeerClaims]:
        scheme, _, token = (header or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise PeerTokenError("peer token required")
        if not self._settings.federation_enabled:
            raise PeerTokenError("peer not registered")
        own, now_ms = self._node.node_id, self._now_ms()
        return check_peer_token(token.strip(), own, now_ms, self.peers(), nonces)

    def _note_key(self, peer: PeerRow) -> None:
        """Record a peer's new key, so that this node refuses the replaced one from now on."""
        noting = self._noting.get(peer.node_id)
        if noting is not None and not noting.done():
            return
        key = peer.public_key
        for row in self._node.reader.peers:
            if (row.node_id, row.active) == (peer.node_id, True) and row.public_key != key:
                change = PeerStateSet(peer_id=row.peer_id, public_key=key)
                with suppress(WriterBusy, WriterClosed, ReplicaReadOnly):  # a later token brings it
                    noting = self._node.writer.submit([change], actor=ACTOR)
                    self._noting[peer.node_id] = noting

    def shared_scopes(self, scopes: frozenset[str]) -> frozenset[str]:
        """Those of the scopes that may leave the node."""
        return scopes & self._open_scopes()

    def bounds(
        self, node_id: str, scopes: frozenset[str], source: str | None = None
    ) -> RecordBounds:
        """The bounds on records of a peer."""
        limit = self._settings.value_bytes_max
        return RecordBounds(node_id, self.shared_scopes(scopes), limit, source)

    def pulled(self, node_id: str) -> ForeignPages | None:
        """The result of pulling a peer so far."""
        return self._node.reader.ask(foreign_pages, node_id)

    def sees_more_scopes(self, peer: PeerRow) -> bool:
        """Whether this peer sees more scopes than at its last request. A peer with one cursor for
        all scopes then has to read everything again."""
        now = self.shared_scopes(peer.scopes)
        before = self._shared.get(peer.node_id, now)
        self._shared[peer.node_id] = now
        return not now <= before

    @property
    def wanted(self) -> bool:
        return self._settings.federation_enabled

    async def start(self) -> None:
        """Begin to pull; a replica never does."""
        if self.wanted:
            self._session = PeerSession(private=self._settings.federation_insecure)
        await super().start()

    async def stop(self) -> None:
        """Stop pulling; a fetched page is written whole or not at all."""
        await super().stop()
        if self._session is not None:
            await self._session.close()

    async def pull_once(self, peer: PeerRow) -> RoundReport:
        """One round with a peer. Raises PeerFault."""
        assert self._session is not None
        scopes = sorted(self.shared_scopes(peer.scopes))

        def token() -> str:
            return sign_peer_token(self._node.identity, peer.node_id, scopes, self._now_ms())

        source = HttpFactSource(self._session, peer.node_url, token)
        bounds = self.bounds(peer.node_id, peer.scopes)
        writing = partial(
            take, self._node, partial(check_peer, lambda: self.peers().values(), peer)
        )
        return await pull_round(source, self._node.reader, writing, bounds, self._node.clock.now_us)

    def status(self) -> TaskStatus:
        own = super().status()
        if own.state != "running":
            return own
        states = [self.states[name] for name in self.children if name in self.states]
        faults = [state.fault for state in states if state.fault is not None]
        if faults:
            return TaskStatus(self.name, "failing", faults[0])
        return own if self.children else TaskStatus(self.name, "idle")

    async def run(self) -> None:
        while True:
            peers = self.peers() if self._node.leads else {}
            wanted = {
                name: peer for name, peer in peers.items() if peer.active and peer.pulled == "facts"
            }
            for node_id in [
                name for name in self.children if self._pulled.get(name) != wanted.get(name)
            ]:
                self.children.pop(node_id).cancel()  # its grants changed: pull it again at once
            for node_id in wanted.keys() - self.children.keys():
                task = asyncio.create_task(self._pull(node_id), name=f"pull {node_id}")
                self.children[node_id] = task
            self._pulled = wanted
            await asyncio.sleep(LOOK_SECONDS)

    async def _pull(self, node_id: str) -> None:
        """Pull a peer for ever."""
        state = self.states.setdefault(node_id, PullState())
        failures = 0
        while True:
            wait = self._settings.federation_pull_interval_s
            try:
                peer = self.peers().get(node_id)
                if peer is not None:
                    state.report = await self.pull_once(peer)
                    if state.report.more:
                        wait = 0.0
                state.rounds += 1
                failures, state.fault = 0, None
            except PeerBusy as fault:
                state.fault, wait = str(fault), fault.seconds
            except Exception as fault:
                failures += 1
                wait = min(wait * 2 ** min(failures, 10), BACKOFF_SECONDS_MAX)
                known = isinstance(fault, PeerFault)
                self._note(
                    node_id, state, str(fault) if known else f"{type(fault).__name__}: {fault}"
                )
            await asyncio.sleep(wait * (0.75 + random.random() / 2))

    def _note(self, node_id: str, state: PullState, fault: str) -> None:
        if state.fault != fault:
            _log.warning("pulling %s: %s", node_id, fault)
        state.fault = fault

    def _now_ms(self) -> int:
        return self._node.clock.now_us() // 1000
