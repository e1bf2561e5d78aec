"""What happened with peers, for the protocol's trail of federation.

Grants and streams of gardens are left out: they would tell of gardens.
"""

from collections.abc import Mapping

import msgspec

from engramlog.eventlog.event import Recorded, scope_partition
from engramlog.eventlog.kinds import ForeignPageReceived, PeerDeclared, PeerStateSet
from engramlog.eventlog.kinds.peers import PeerPayload
from engramlog.eventlog.log import EventLog
from engramlog.projections.audit.journal import JournalEntry
from engramlog.projections.normalization import SCOPES

_LEFT_OUT = frozenset(
    {"kind", "peer_id", "grants", "public_key", "signature", "statement", "earlier", "later"}
)


class Peering:
    """The events about peers in some scopes, of one peer if ``only`` (a peer id) is given.
    ``peers``: peer ids by node id."""

    def __init__(
        self, log: EventLog, scopes: frozenset[str], peers: Mapping[str, str], only: str | None
    ) -> None:
        self.log = log
        self._scopes = scopes
        self._peers = peers
        self._only = only

    def peer_of(self, event: Recorded) -> str | None:
        """The peer id of an event; None if the event is about no known peer."""
        payload = event.payload
        if not isinstance(payload, PeerPayload):
            return None
        if isinstance(payload, PeerDeclared | PeerStateSet):
            return payload.peer_id
        return self._peers.get(payload.node_id)

    def entry(self, event: Recorded) -> JournalEntry | None:
        """The visible part of an event; None if nothing is visible."""
        payload = event.payload
        if not isinstance(payload, PeerPayload) or not self._covers(payload):
            return None
        if self._only not in (None, self.peer_of(event)):
            return None
        body = msgspec.to_builtins(payload)
        return JournalEntry(event, [], {k: v for k, v in body.items() if k not in _LEFT_OUT})

    def _covers(self, payload: PeerPayload) -> bool:
        if isinstance(payload, PeerDeclared):
            return True
        if isinstance(payload, ForeignPageReceived):
            return self._scopes >= ({payload.scope} if payload.scope else frozenset(SCOPES))
        stream = payload.stream
        ends = (f"/{scope_partition(scope)}" for scope in self._scopes)
        return stream is None or any(stream.endswith(end) for end in ends)
