"""The one writing transaction, the same for every engine.

It decides (idempotency, conditions, duplicate identifiers, sizes), links drafts onto the chain in
memory, and passes everything to its log on commit. An append that raises leaves the
transaction unchanged.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from time import monotonic

import msgspec
from msgspec import Struct

from engramlog.eventlog.chain import EVENT_ID_BYTES, Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.codec import encode_payload, read_payload
from engramlog.eventlog.engines.following import CommitSignal, LogSubscription, walk
from engramlog.eventlog.errors import AppendError, ExpectationFailed, IdempotencyConflict, LogClosed
from engramlog.eventlog.event import Draft, Recorded, Verified
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.log import TRANSACTION_EVENTS_MAX, Appended, Expect, Idempotency

SAME_FAULT_SECONDS = 60.0
"""How often the log's messages repeat a fault that comes and goes."""

_log = logging.getLogger(__name__)


class KeyUse(Struct, frozen=True):
    """What an idempotency key recorded: first to last position (last < first for none)."""

    digest: bytes
    first_position: int
    last_position: int


KeyUses = Mapping[tuple[str, str], KeyUse]
"""Uses by (actor, key)."""


class WriterTurn:
    """One transaction at a time: other threads wait; a second in the same thread is an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the open transaction."""
        return self._thread == threading.get_ident()

    def take(self) -> None:
        if self.is_mine:
            raise RuntimeError("this thread already has a transaction open")
        self._lock.acquire()
        self._thread = threading.get_ident()

    def give_back(self) -> None:
        self._thread = 0
        self._lock.release()


def _encoded(drafts: Sequence[Draft]) -> list[bytes]:
    """The payloads' bytes, after a test that they can be read back: the log is permanent."""
    try:
        payloads = [encode_payload(draft.payload) for draft in drafts]
        for data in payloads:
            read_payload(data)
    except (msgspec.MsgspecError, TypeError, UnicodeError) as fault:
        raise AppendError(f"payload could not be read back: {fault}") from fault
    return payloads


class Transaction:
    """Implements ``AppendTransaction`` over an engine."""

    def __init__(self, ledger: "AppendingLog") -> None:
        self._ledger = ledger
        self._links: list[Link] = []
        self._ids: set[bytes] = set()
        self._keys: dict[tuple[str, str], KeyUse] = {}
        self._erased: list[bytes] = []
        self._open = True

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        received_at: int | None = None,
        idempotency: Idempotency | None = None,
        since: int | None = None,
        expect: Expect | None = None,
    ) -> Appended:
        self._require_open()
        if idempotency is not None and since is None:
            before = self.replayed(idempotency)
            if before is not None:
                return before
        if expect is not None:
            self._check_expectation(expect)
        payloads = _encoded(drafts)
        ids = self._ids_of([draft.event_id for draft in drafts])
        ledger = self._ledger
        links = ledger.chain.link(
            drafts,
            payloads,
            ledger.clock.now_us() if received_at is None else received_at,
            None if idempotency is None else idempotency.key,
        )
        self._ids |= ids
        self._links += links
        if idempotency is not None:
            last = ledger.chain.position
            first = last - len(links) + 1 if since is None else since + 1
            self._keys[idempotency.actor, idempotency.key] = KeyUse(idempotency.digest, first, last)
        return Appended([recorded for recorded, _ in links])

    def adopt(
        self,
        events: Sequence[Verified],
        peer: str,
        *,
        received_at: int | None = None,
    ) -> Appended:
        self._require_open()
        ledger = self._ledger
        ids = self._ids_of([event.header.event_id for event in events])
        now_us = ledger.clock.now_us() if received_at is None else received_at
        links = ledger.chain.adopt(events, peer, now_us)
        self._ids |= ids
        self._links += links
        return Appended([recorded for recorded, _ in links])

    def replayed(self, idempotency: Idempotency) -> Appended | None:
        self._require_open()
        actor, key = idempotency.actor, idempotency.key
        buffered = self._keys.get((actor, key))
        use = buffered or self._ledger.key_use(actor, key)
        if use is None:
            return None
        if use.digest != idempotency.digest:
            raise IdempotencyConflict(actor, key)
        first, last = use.first_position, use.last_position
        if buffered is None:
            return Appended(self._ledger.recorded(first, last), replayed=True)
        start = self._ledger.chain.position - len(self._links) + 1
        events = [recorded for recorded, _ in self._links[first - start : last + 1 - start]]
        return Appended(events, replayed=True)

    def erase(self, event_ids: Sequence[bytes]) -> None:
        self._require_open()
        self._erased += event_ids

    def commit(self) -> None:
        self._require_open()
        stored = False
        try:
            if self._links or self._keys or self._erased:
                self._ledger.store(self._links, self._keys, self._erased)
            else:
                self._ledger.confirm()
            stored = True
        finally:
            self._end(stored)

    def rollback(self) -> None:
        if self._open:
            self._end(stored=False)

    def _end(self, stored: bool) -> None:
        self._open = False
        if not stored:
            self._ledger.chain.take_back()
        self._ledger.release()

    def _require_open(self) -> None:
        if not self._open:
            raise RuntimeError("this transaction is over: begin another")

    def _check_expectation(self, expect: Expect) -> None:
        chain = self._ledger.chain
        if expect.position is not None and expect.position != chain.position:
            raise ExpectationFailed("log position", expect.position, chain.position)
        if expect.stream is not None:
            actual = chain.stream_seq(expect.stream)
            if actual != (expect.stream_seq or 0):
                raise ExpectationFailed(f"stream {expect.stream}", expect.stream_seq or 0, actual)

    def _ids_of(self, given: Sequence[bytes]) -> set[bytes]:
        if len(self._links) + len(given) > TRANSACTION_EVENTS_MAX:
            raise AppendError(
                f"transaction would hold {len(self._links) + len(given)} events, "
                f"over {TRANSACTION_EVENTS_MAX}"
            )
        ids: set[bytes] = set()
        taken, holds = self._ids, self._ledger.holds
        for event_id in given:
            if len(event_id) != EVENT_ID_BYTES:
                raise AppendError(f"event id has {len(event_id)} bytes, not {EVENT_ID_BYTES}")
            if event_id in ids or event_id in taken or holds(event_id):
                raise AppendError(f"event id {id_text(event_id)} is already recorded")
            ids.add(event_id)
        return ids


class Closable:
    """A log, or a part of one."""

    _closed = False

    def _require_open(self) -> None:
        if self._closed:
            raise LogClosed("the log is closed")


class AppendingLog(Closable, ABC):
    """The methods that engines with these transactions share. A transaction calls ``key_use``,
    ``holds``, ``recorded``, ``store``, ``confirm`` and ``release`` under the writer's lock."""

    held: frozenset[str] = EVERY_SCOPE
    chain: Chain
    clock: Clock
    _turn: WriterTurn
    _signal: CommitSignal
    _fault: str | None = None
    _is_told = False
    _last_told = ("", 0.0)

    @property
    def fault(self) -> str | None:
        return self._fault

    @fault.setter
    def fault(self, reason: str | None) -> None:
        self._fault = reason
        last, at = self._last_told
        if reason is None:
            if self._is_told:
                _log.info("the log takes writes again")
            self._is_told = False
        elif not self._is_told and (reason != last or monotonic() - at >= SAME_FAULT_SECONDS):
            _log.warning("%s", reason)
            self._is_told, self._last_told = True, (reason, monotonic())

    @property
    def origin(self) -> str:
        return self.chain.origin

    @property
    def epoch(self) -> int:
        return self.chain.epoch

    @abstractmethod
    def read(
        self,
        after: int = 0,
        limit: int = 1000,
        streams: Collection[str] | None = None,
        bytes_max: int | None = None,
    ) -> list[Recorded]:
        """See ``EventLog``."""

    def iterate(self, after: int = 0, until: int | None = None) -> Iterator[Recorded]:
        return walk(self, after, until)

    def subscribe(self, after: int = 0, streams: Collection[str] | None = None) -> LogSubscription:
        self._require_open()
        return LogSubscription(self, self._signal, after, streams)

    def retry(self) -> None:
        """See ``EventLog``: the next transaction tests storage."""

    @abstractmethod
    def begin(self) -> Transaction:
        """See ``EventLog``."""

    @abstractmethod
    def key_use(self, actor: str, key: str) -> KeyUse | None:
        """The durable use of an idempotency key."""

    @abstractmethod
    def holds(self, event_id: bytes) -> bool:
        """Whether an event with this identifier is durable."""

    @abstractmethod
    def recorded(self, first: int, last: int) -> list[Recorded]:
        """The durable events of these positions."""

    @abstractmethod
    def store(self, links: Sequence[Link], keys: KeyUses, erased: Sequence[bytes]) -> None:
        """Make everything durable, or nothing, and delete the payloads of the events ``erased``.
        Raises StorageError, EraseRefused."""

    def confirm(self) -> None:
        """Commit a transaction without writes: everything it read is durable once this returns. If
        only this process commits, everything it can read is. Raises StorageError."""

    def release(self) -> None:
        """End the transaction, so that another may begin."""
        self._turn.give_back()
        self._signal.notify()

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        received_at: int | None = None,
        idempotency: Idempotency | None = None,
        expect: Expect | None = None,
    ) -> Appended:
        transaction = self.begin()
        try:
            appended = transaction.append(
                drafts, received_at=received_at, idempotency=idempotency, expect=expect
            )
            transaction.commit()
        finally:
            transaction.rollback()
        return appended
