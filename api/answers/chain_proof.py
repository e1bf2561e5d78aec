"""The protocol's fact chain (wire 1.6): a hash chain over the facts a caller can read.

It is a function of the log, so nothing is stored. Memory keeps the running head per set of readable
scopes, and each request continues from there. On the way it recomputes every fact's content id.
"""

import hashlib
import json
import threading
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.api.http.errors import coded
from engramlog.api.schemas.rights import TENANT
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.facts.fact_rows import FactRow

PAGE_FACTS = 5_000
CHAINS_MAX = 64
"""Running heads to keep; at most 16 sets of scopes exist, times gardens."""

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode

Hidden = tuple[tuple[str, int], ...]
"""Names that tombstones hide, with the scopes as bits."""


class Running(Struct, frozen=True):
    """A chain up to a log position."""

    position: int = 0
    entries: int = 0
    head: str | None = None


class FactChains:
    """Chain heads by readable set; safe from several threads."""

    def __init__(self) -> None:
        self._running: dict[tuple[Authorization, Hidden], Running] = {}
        self._lock = threading.Lock()

    def proof(
        self, reader: Reader, view: View, authorization: Authorization, moment: Moment
    ) -> dict[str, Any]:
        """The ``chain_proof`` of all facts that the caller could read at the moment. Raises
        ApiError 409 ``fact_chain_mismatch`` if a fact does not match its content id."""
        if view.confidential:  # its facts depend on the caller, and may change in the past
            return _proof(_continued(Running(), reader, view, authorization, moment))
        # The chain depends only on the rights to read.
        rights = msgspec.structs.replace(
            authorization, principal="", permissions=frozenset(), sources=()
        )
        name = (rights, tuple(sorted(view.hiding.names.items())))
        with self._lock:
            start = self._running.get(name, Running())
            if start.position > moment.position:
                start = Running()
            chain = _continued(start, reader, view, authorization, moment)
            if chain.position >= self._running.get(name, Running()).position:
                if len(self._running) >= CHAINS_MAX:
                    self._running.clear()
                self._running[name] = chain
        return _proof(chain)


def _proof(chain: Running) -> dict[str, Any]:
    return {
        "tenant_id": TENANT,
        "checked_entries": chain.entries,
        "head_hash": chain.head,
        "checkpoint": None,
    }


def _continued(
    chain: Running, reader: Reader, view: View, authorization: Authorization, moment: Moment
) -> Running:
    """The chain with the facts that the caller may read up to the moment."""
    first = int(np.searchsorted(view.from_position, chain.position, side="right"))
    slots: I32 = np.arange(first, view.count, dtype=np.int32)
    positions = view.from_position[known(view, authorization, moment, slots)].tolist()
    entries, head = chain.entries, chain.head
    for start in range(0, len(positions), PAGE_FACTS):
        for row in reader.rows(positions[start : start + PAGE_FACTS]):
            entries += 1
            head = _hash(
                {
                    "chain_seq": entries,
                    "created_at": format_instant(row.recorded_at),
                    "event_hash": _hash(_body(row)),
                    "fact_id": row.id,
                    "previous_hash": head,
                    "tenant_id": TENANT,
                }
            )
    return Running(moment.position, entries, head)


def _body(row: FactRow) -> dict[str, Any]:
    computed = row.computed_cid()
    if row.cid and row.cid != computed:
        raise coded("fact_chain_mismatch", "a stored fact is not its content id", fact_id=row.id)
    return {
        "cid": row.cid or None,
        "confidence": row.base_confidence,
        "entity": row.entity,
        "fact_id": row.id,
        "relation": row.relation,
        "scope": row.scope,
        "source": row.source,
        "tenant_id": TENANT,
        "value_type": row.value_type,
        "value_v": row.value_v,
    }


def _hash(body: dict[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(_canonical(body).encode()).hexdigest()
