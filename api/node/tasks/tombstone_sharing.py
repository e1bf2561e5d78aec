"""Tombstones between peers: serving this node's, taking peers', and the rounds over peers.

A node shares only tombstones that it signed itself, never those of others. A peer's record counts
only if the peer has the grant ``erase_foreign``, in the scopes shared with it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engramlog.api.answers.erasure_records import (
    RevocationRecord,
    TombstoneRecord,
    revocation_record,
    tombstone_record,
)
from engramlog.api.client.peer_source import PeerSession
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.peering import check_peer
from engramlog.api.node.tasks.task import LoopTask
from engramlog.api.settings import Settings
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import PeerStateSet
from engramlog.projections.tables.facts.tombstones import (
    TombstoneRow,
    changes_after,
    find_tombstone,
)
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.projections.writing.commands import Refused
from engramlog.replay.federation.declaration import wire_key
from engramlog.replay.stigmem.peer_token import sign_peer_token
from engramlog.replay.stigmem.pulling import PeerFault
from engramlog.replay.stigmem.tombstones import (
    NotTaken,
    TombstoneBounds,
    command_of,
    key_id_of,
    signature_of,
)

PATH = "/v1/federation/tombstones"
ACTOR = "system:engramlog:federation"
PAGE = 200
PAGES_MAX = 100
WHOLE_ROUNDS = 20
"""Rounds until the node reads everything of a peer again; a change of grants does the same."""

_log = logging.getLogger(__name__)
_Record = TypeVar("_Record", TombstoneRecord, RevocationRecord)


class SharedTombstones(Struct):
    """A page of a node's tombstones; ``cursor`` is null if no more follow."""

    tombstones: list[TombstoneRecord]
    revocations: list[RevocationRecord]
    cursor: str | None


def shared_page(node: Node, scopes: frozenset[str], after: int, limit: int) -> SharedTombstones:
    """A page of this node's tombstones and revocations in ``scopes``, without the reasons."""
    changes = node.reader.ask(changes_after, after, limit)
    page = SharedTombstones([], [], str(changes[-1][0]) if changes else None)
    own = node.identity
    for _, change in changes:
        if isinstance(change, TombstoneRow):
            if change.scopes & scopes:
                record = tombstone_record(replace(change, reason=None))
                page.tombstones.append(signed_now(own, record))
            continue
        row = node.reader.ask(find_tombstone, change.tombstone_id, None)
        if row is not None and row.scopes & scopes:
            page.revocations.append(signed_now(own, revocation_record(replace(change, reason=""))))
    return page


def signed_now(identity: Identity, record: _Record) -> _Record:
    """The record with a signature that peers accept: they know only this node's current key."""
    if record.key_id != key_id_of(identity):
        record.key_id = key_id_of(identity)
        record.signature = signature_of(identity, msgspec.to_builtins(record))
    return record


def bounds_of(node: Node, peer: PeerRow, scopes: frozenset[str]) -> TombstoneBounds:
    """The present bounds on the peer's records."""
    granted = any(row.node_id == peer.node_id and _granted(row) for row in node.reader.peers)
    return TombstoneBounds(peer.node_id, wire_key(peer.public_key), scopes, granted)


async def take(
    node: Node, check: Callable[[], None], record: dict[str, Any], bounds: TombstoneBounds
) -> str:
    """Write a peer's record; its id. ``check``: as ``Writer.submit``. Raises NotTaken, also if the
    record is known."""
    command = command_of(record, bounds)
    future = node.writer.submit([command], actor=ACTOR, check=check)
    outcome = (await asyncio.wrap_future(future)).outcomes[0]
    if isinstance(outcome, Refused):
        raise NotTaken(outcome.code, outcome.message)
    return str(record["id"])


def _granted(row: PeerRow) -> bool:
    return row.active and row.grants is not None and row.grants.erase_foreign


class TombstonePuller(LoopTask):
    """Reads the tombstones of every peer that may hide facts here, at intervals. ``shared``: the
    subset of a peer's scopes that may be shared."""

    def __init__(
        self, node: Node, settings: Settings, shared: Callable[[frozenset[str]], frozenset[str]]
    ) -> None:
        super().__init__("peer_tombstones", node.reader)
        self._node = node
        self._settings = settings
        self._shared = shared
        self._cursors: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._rounds = 0

    @property
    def wanted(self) -> bool:
        return self._settings.federation_enabled

    async def run(self) -> None:
        session = PeerSession(private=self._settings.federation_insecure)
        try:
            await self._ask_for_ever(session)
        finally:
            await session.close()

    def committed(self, events: Sequence[Recorded]) -> None:
        if any(isinstance(event.payload, PeerStateSet) for event in events):
            self.wake()

    async def _ask_for_ever(self, session: PeerSession) -> None:
        """Ask each peer in its own task, so that a slow one delays no other."""
        while True:
            peers = self._node.reader.peers if self._node.leads else []
            self.children = {name: task for name, task in self.children.items() if not task.done()}
            for row in peers:
                if not _granted(row) or row.pulled is None:
                    self._faults.pop(row.node_id, None)
                elif row.node_id not in self.children:
                    task = asyncio.create_task(self._ask_or_note(session, row), name=self.name)
                    self.children[row.node_id] = task
            self.error = next(iter(self._faults.values()), None)
            self._rounds += 1
            if self._rounds % WHOLE_ROUNDS == 0:
                self._cursors.clear()  # the peer's grants for this node may have changed too
            if await self.pause(self._settings.federation_pull_interval_s):
                self._cursors.clear()

    async def _ask_or_note(self, session: PeerSession, row: PeerRow) -> None:
        try:
            self._faults.pop(row.node_id, None)
            await self._ask(session, row)
        except Exception as fault:
            self._note(row.node_id, str(fault) or type(fault).__name__)

    async def _ask(self, session: PeerSession, row: PeerRow) -> None:
        """Read a peer's records that are new here. Raises PeerFault."""
        node = self._node
        assert row.grants is not None
        scopes = self._shared(frozenset(row.grants.scopes))
        for _ in range(PAGES_MAX):
            now_ms = node.clock.now_us() // 1000
            token = sign_peer_token(node.identity, row.node_id, sorted(scopes), now_ms)
            query = {"limit": str(PAGE)}
            if row.node_id in self._cursors:
                query["cursor"] = self._cursors[row.node_id]
            page = await session.fetch(row.node_url.rstrip("/") + PATH, query, token)
            records, cursor = _records(page)
            # A grant may have been withdrawn while the peer answered.
            bounds = bounds_of(node, row, scopes)
            for record in records:
                await self._take(row, record, bounds)
            if cursor is None:
                return
            self._cursors[row.node_id] = cursor

    async def _take(self, row: PeerRow, record: dict[str, Any], bounds: TombstoneBounds) -> None:
        node = self._node
        check = partial(check_peer, lambda: node.reader.peers, row)
        try:
            await take(node, check, record, bounds)
        except NotTaken as fault:
            known = ("tombstone_already_exists", "tombstone_already_revoked")
            if fault.code not in known:
                self._note(bounds.node_id, f"{fault.code}: {fault}")

    def _note(self, node_id: str, fault: str) -> None:
        if self._faults.get(node_id) != fault:
            _log.warning("tombstones of %s: %s", node_id, fault)
        self._faults[node_id] = self.error = fault


def _records(page: object) -> tuple[list[dict[str, Any]], str | None]:
    """The records of an answer, tombstones first, and its cursor. Raises PeerFault."""
    fields = cast("dict[str, Any]", page) if isinstance(page, dict) else {}
    found: list[dict[str, Any]] = []
    for name in ("tombstones", "revocations"):
        listed = fields.get(name)
        if not isinstance(listed, list):
            raise PeerFault(f"the peer's answer has no list of {name}")
        found += [each for each in cast("list[Any]", listed) if isinstance(each, dict)]
    cursor = fields.get("cursor")
    return found, cursor if isinstance(cursor, str) else None
