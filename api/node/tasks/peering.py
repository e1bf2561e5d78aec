"""The peers of this node, and one thread for each peer to replay."""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from engramlog.api.client.event_source import HttpPeerSource, Woken
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import TaskStatus
from engramlog.api.settings import Settings
from engramlog.eventlog.errors import EventLogError
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactErased, PeerDeclared, PeerStateSet, ReplicaPromoted
from engramlog.projections.http_exchange import AnswerLimits
from engramlog.projections.tables.peers.peers import PeerRow, load_peer_streams
from engramlog.projections.tables.peers.remote_retractions import erased_elsewhere
from engramlog.projections.writing.commands import Command, WriteAnswer
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.projections.writing.submission import WriterBusy, WriterClosed, WriterDegraded
from engramlog.replay.federation.declaration import SHARED_SCOPES
from engramlog.replay.federation.page import PageFault
from engramlog.replay.federation.pulling import Here, PeerUnreachable, pull
from engramlog.replay.stigmem.peer_token import sign_peer_token
from engramlog.replay.stigmem.pulling import PeerFault

ACTOR = "system:engramlog:federation"
WAIT_SECONDS = 20.0
LEAD_LOOK_SECONDS = 5.0
PAGES_A_ROUND = 50
BACKOFF_SECONDS_MIN = 0.2
BACKOFF_SECONDS_MAX = 30.0

_EXPECTED = (
    EventLogError, PageFault, PeerUnreachable, WriterBusy, WriterClosed, WriterDegraded,
)  # fmt: skip
_log = logging.getLogger(__name__)


def check_peer(rows: Callable[[], Iterable[PeerRow]], peer: PeerRow) -> None:
    """Raises PeerFault if none of the present ``rows`` is approved as ``peer`` was."""
    if all(row.approval != peer.approval for row in rows()):
        raise PeerFault(f"the grants of {peer.node_id} changed: the next round applies them")


class ReplayState(Struct):
    """The state of replaying a peer, since this node began to serve."""

    rounds: int = 0
    pages: int = 0
    events: int = 0
    fault: str | None = None
    passed_over: list[str] = []
    """Streams that the peer offered without a grant; a few at most."""
    waiting: dict[str, str] = {}
    """By stream, the reason why it waits; it continues by itself."""
    level_at_us: int | None = None
    """When this node last had everything that the peer offered."""


class PeerReplay:
    """See the module."""

    name = "peer_replay"

    def __init__(self, node: Node, settings: Settings) -> None:
        self.states: dict[str, ReplayState] = {}
        self.limits = AnswerLimits()
        self._node = node
        self._settings = settings
        self._lock = threading.Lock()
        self._threads: dict[str, _Replaying] = {}
        self._running = False

    def rows(self) -> dict[str, PeerRow]:
        return {row.node_id: row for row in self._node.reader.peers}

    def open_scopes(self) -> frozenset[str]:
        """Scopes that may leave this node."""
        team = ("team",) if self._settings.federation_allow_team else ()
        return frozenset((*SHARED_SCOPES, *team))

    async def start(self) -> None:
        self._running = self._settings.federation_enabled
        self._node.reader.followers.append(self.committed)
        self.attend()
        if self._running and self._node.shared is not None:
            threading.Thread(target=self._watch_lead, name="peers", daemon=True).start()

    async def stop(self) -> None:
        """End every replay after the current write."""
        await asyncio.to_thread(self._end)

    def status(self) -> TaskStatus:
        enabled = self._settings.federation_enabled
        if not enabled or self._node.replica is not None:  # it leaves peers to its primary
            return TaskStatus(self.name, "off")
        if not self._running:
            return TaskStatus(self.name, "stopped")
        with self._lock:
            states = [self.states[name] for name in self._threads]
        faults = [state.fault for state in states if state.fault is not None]
        if faults:
            return TaskStatus(self.name, "failing", faults[0])
        return TaskStatus(self.name, "running" if states else "idle")

    def _end(self) -> None:
        self._running = False
        if self.committed in self._node.reader.followers:
            self._node.reader.followers.remove(self.committed)
        with self._lock:
            ending, self._threads = list(self._threads.values()), {}
        for each in ending:
            each.stop()
        for each in ending:
            each.join()

    def committed(self, events: Sequence[Recorded]) -> None:
        """Note new, changed and removed peers, this node's promotion, and events that a stream may
        wait for. Runs in the writer's thread, after the reader has the events."""
        kinds = {type(event.payload) for event in events}
        if not kinds.isdisjoint((PeerDeclared, PeerStateSet, ReplicaPromoted)):
            changed = frozenset(
                event.payload.peer_id
                for event in events
                if isinstance(event.payload, PeerStateSet) and not event.payload.held
            )
            threading.Thread(target=self.attend, args=(changed,), name="peers", daemon=True).start()
        if FactErased in kinds:
            for each in list(self._threads.values()):
                each.wake_if_waiting()

    def ask_others(self, node_id: str) -> None:
        """Ask every other peer at once: one of them may have the events that ``node_id`` lacks."""
        with self._lock:
            others = [each for name, each in self._threads.items() if name != node_id]
        for each in others:
            each.wake()

    def _watch_lead(self) -> None:
        """Of nodes over one log, one pulls; this one can change."""
        while self._running:
            time.sleep(LEAD_LOOK_SECONDS)
            self.attend()

    def attend(self, changed: Collection[str] = ()) -> None:
        """Run one thread for each peer to replay; threads of ``changed`` peers (ids here) look
        again at once."""
        with self._lock:
            if not self._running:
                return
            wanted = {
                row.node_id: row
                for row in (self.rows().values() if self._node.leads else ())
                if row.active and row.pulled == "events"
            }
            for node_id in [name for name in self._threads if name not in wanted]:
                self._threads.pop(node_id).stop()
            for node_id, row in wanted.items():
                if row.peer_id in changed and node_id in self._threads:
                    self._threads[node_id].wake()
                if node_id not in self._threads:
                    state = self.states.setdefault(node_id, ReplayState())
                    self._threads[node_id] = _Replaying(self, self._node, node_id, state)
                    self._threads[node_id].start()

    def source(self, row: PeerRow) -> HttpPeerSource:
        """The peer's federation routes; each request carries a token."""
        scopes = sorted(self.open_scopes() & set(row.allowed_scopes))
        node = self._node

        def token() -> str:
            now_ms = node.clock.now_us() // 1000
            return sign_peer_token(node.identity, row.node_id, scopes, now_ms)

        private = self._settings.federation_insecure
        return HttpPeerSource(row.node_url, token, self.limits, private=private)


class _Replaying(threading.Thread):
    """Replays one peer until stopped; a slow one delays no other."""

    def __init__(self, peers: PeerReplay, node: Node, node_id: str, state: ReplayState) -> None:
        super().__init__(name=f"replay {node_id}", daemon=True)
        self._peers = peers
        self._node = node
        self._node_id = node_id
        self._state = state
        self._ending = threading.Event()
        self._waking = threading.Event()
        self._waits: dict[str, int] = {}
        self._due_us = 0
        self._source: HttpPeerSource | None = None

    def stop(self) -> None:
        """End, and cancel a waiting request."""
        self._ending.set()
        self._waking.set()
        source = self._source
        if source is not None:
            source.close()

    def wake(self) -> None:
        """Begin a round at once, even during a wait."""
        self._waking.set()
        source = self._source
        if source is not None:
            source.wake()

    def wake_if_waiting(self) -> None:
        """Begin a round at once if a stream waits for events that may have come."""
        if self._waits:
            self.wake()

    def run(self) -> None:
        pause = BACKOFF_SECONDS_MIN
        while not self._ending.is_set():
            try:
                if self._round():
                    self._state.level_at_us = self._node.clock.now_us()
                self._state.fault = None
                pause = BACKOFF_SECONDS_MIN
                continue
            except Woken:
                continue
            except _EXPECTED as fault:
                self._note(str(fault))
            except Exception as fault:
                _log.exception("replaying %s", self._node_id)
                self._note(f"{type(fault).__name__}: {fault}")
            if self._source is not None:
                self._source.forget()  # the peer has more than this node took
            if self._waking.wait(pause * (0.5 + random.random())):
                self._waking.clear()
                pause = BACKOFF_SECONDS_MIN
            else:
                pause = min(2 * pause, BACKOFF_SECONDS_MAX)

    def _round(self) -> bool:
        """One round of pulling; whether this node then has everything that the peer offers."""
        self._waking.clear()
        row = self._peers.rows().get(self._node_id)
        if row is None or not row.active:
            self._ending.wait(1.0)
            return False
        if self._source is None or self._source.url != row.node_url.rstrip("/"):
            self._source = self._peers.source(row)
        reader = self._node.reader
        known = {each.stream: each for each in reader.ask(load_peer_streams)}
        # A level stream waits at the peer for new events; one that lags asks again.
        wait = WAIT_SECONDS if self._state.level_at_us is not None else 0.0
        if self._due_us:
            due_seconds = (self._due_us - self._node.clock.now_us()) / 1_000_000
            wait = max(BACKOFF_SECONDS_MIN, min(wait, due_seconds))
        self._source.wait_seconds = wait
        if not self._state.rounds:
            # A killed node left them, or an earlier release that could not read them.
            self._submit([TakeForeignEnds()])
        pulled = pull(self._source, self._here(), row, known, pages_max=PAGES_A_ROUND)
        self._state.rounds += 1
        self._state.pages += pulled.pages
        self._state.events += pulled.events
        self._state.passed_over = list(pulled.passed_over)
        if pulled.waiting.keys() - self._state.waiting.keys():
            self._peers.ask_others(self._node_id)
        self._state.waiting = pulled.waiting
        self._due_us = pulled.due_us
        if not pulled.complete:
            self._source.forget()
        return pulled.complete

    def _here(self) -> Here:
        node, own = self._node, self._node.node_id
        return Here(
            node.log,
            self._submit,
            node.clock.now_us,
            lambda events, origin: node.reader.ask(erased_elsewhere, events, origin, own),
            self._waits,
        )

    def _submit(self, commands: Sequence[Command]) -> WriteAnswer:
        if self._ending.is_set():
            raise PeerUnreachable("replaying this peer ends")
        return self._node.writer.submit(commands, actor=ACTOR, atomic=True).result()

    def _note(self, reason: str) -> None:
        if self._state.fault != reason and not self._ending.is_set():
            _log.warning("replaying %s: %s", self._node_id, reason)
        self._state.fault = reason
