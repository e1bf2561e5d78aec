"""The node's journal: every event visible to a caller, oldest first (wire 2.2).

An event about facts is listed if the caller may read one of them. Events of keys and settings are
for callers that read every scope. Events that could reveal gardens, or what others were shown, are
only for the machine's owner, not even for members of gardens: an event listed on one node and not
on another would reveal that gardens exist.
Erasures are for admins of every scope, who may list them anyway.
"""

from typing import Any

import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded, UnknownPayload
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import REPLICATED, ConflictResolved, FactDenied, FactErased
from engramlog.eventlog.log import EventLog
from engramlog.projections.archive.rows import touched, without
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import may_know_settlement, readable_of
from engramlog.projections.normalization import SCOPES

SCANNED_MAX = 20_000
"""Events read for one page, however few match."""
_OF_THE_NODE = frozenset(
    {
        "agent_key_set",
        "alias_set",
        "capability_issued",
        "capability_revoked",
        "embedding_model_pinned",
        "epoch_started",
        "key_issued",
        "key_revoked",
        "node_key_rotated",
        "org_manifest_set",
        "policy_set",
        "profile_set",
        "set_valued_declared",
        "trust_policy_set",
    }
)
"""Kinds that never concern a fact, a garden or a reader. New kinds are excluded by default."""
_SECRET_FIELDS = frozenset({"kind", "key_sha256", "token_sha256"})


class JournalQuery(Struct, frozen=True, kw_only=True):
    """Which events: after a position, up to one, up to an instant (microseconds)."""

    after: int
    until: int
    until_us: int | None = None
    actor: str | None = None
    kind: str | None = None
    limit: int = 200


class JournalEntry(Struct, frozen=True):
    """An event, and the readable facts that it touched."""

    event: Recorded
    fact_ids: list[str]
    detail: dict[str, Any] | None


class JournalPage(Struct, frozen=True):
    """Entries in order; ``reached``: the last position read, None at the end."""

    entries: list[JournalEntry]
    reached: int | None


class Journal:
    """The journal as one caller sees it."""

    def __init__(self, log: EventLog, view: View, authorization: Authorization) -> None:
        self.log = log
        self._view = view
        self._rights = authorization
        self._everything = authorization.every_garden
        self._every_scope = authorization.scopes == frozenset(SCOPES)
        self._administers = authorization.every_garden or (
            self._every_scope and authorization.may("admin")
        )

    def page(self, asked: JournalQuery) -> JournalPage:
        entries: list[JournalEntry] = []
        position = asked.after
        for event in self.log.iterate(position, min(asked.until, position + SCANNED_MAX)):
            if asked.until_us is not None and event.received_at > asked.until_us:
                return JournalPage(entries, None)
            position = event.position
            entry = self.entry(event) if _matches(event, asked) else None
            if entry is not None:
                entries.append(entry)
                if len(entries) > asked.limit:  # the next page has at least one
                    entries.pop()
                    return JournalPage(entries, entries[-1].event.position)
        return JournalPage(entries, position if position < asked.until else None)

    def entry(self, event: Recorded) -> JournalEntry | None:
        """The visible part of an event; None if nothing is visible."""
        payload = event.payload
        body: dict[str, Any] = {}
        if payload is not None and not isinstance(payload, UnknownPayload):
            body = msgspec.to_builtins(payload)
        facts = touched(event.kind, id_text(event.event_id), body)
        shown = list(readable_of(self._view, self._rights, facts))
        detail = {name: each for name, each in body.items() if name not in _SECRET_FIELDS}
        sides = None
        if isinstance(payload, ConflictResolved):
            sides = (payload.winner_id, payload.loser_ids)
        elif isinstance(payload, FactDenied):
            sides = (payload.marker_id, payload.fact_ids)
        if sides is not None and not may_know_settlement(self._view, self._rights, *sides):
            return None
        if isinstance(payload, FactErased):
            return JournalEntry(event, [], _erasure(payload)) if self._administers else None
        if facts and event.kind in REPLICATED:
            return JournalEntry(event, shown, None) if shown else None
        if self._everything or (self._every_scope and event.kind in _OF_THE_NODE):
            if len(shown) < len(facts):
                if not shown:
                    return None
                detail = without(detail, frozenset(facts) - frozenset(shown))
            return JournalEntry(event, shown, detail or None)
        return None

    def readable(self, fact_id: str) -> bool:
        """Whether the caller may read a fact."""
        return bool(readable_of(self._view, self._rights, [fact_id]))


def _erasure(payload: FactErased) -> dict[str, Any]:
    """How much was erased, and why."""
    return {
        "erasure_id": payload.erasure_id,
        "reason": payload.reason,
        "facts": len(payload.fact_ids),
        "events": len(payload.events),
    }


def _matches(event: Recorded, asked: JournalQuery) -> bool:
    return (asked.actor is None or event.header.actor == asked.actor) and (
        asked.kind is None or event.kind == asked.kind
    )
