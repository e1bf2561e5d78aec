"""Declarations over time: decay policies, set-valued relations, profiles, the pinned model."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    DecayPolicy,
    EmbeddingModelPinned,
    PolicySet,
    ProfileSet,
    SetValuedDeclared,
)
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION
from engramlog.projections.memories.summary_naming import RELATION
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import matches_label
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import end_rows, insert_row

ALWAYS_SET_VALUED = ("rel:*", "stigmem:*", RELATION, MEMORY_RELATION)
"""Relationship labels name many targets by nature. The node's own labels, the paragraphs of a
summary and a user's memories never contradict each other."""

_decode_policy = msgspec.json.Decoder(DecayPolicy).decode
_decode_document = msgspec.json.Decoder(dict[str, Any]).decode


class PoliciesProjector(Projector):
    """``declarations``: one row per named document, valid from its position on."""

    name = "policies"
    version = 1
    schema = f"""
    CREATE TABLE declarations (
        sort TEXT NOT NULL,
        name TEXT NOT NULL,
        document TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (sort, name, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX declarations_live ON declarations (sort, name) WHERE to_position = {LIVE};
    """
    kinds = frozenset(
        {"policy_set", "set_valued_declared", "profile_set", "embedding_model_pinned"}
    )

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        sort, name, document = _declaration(event)
        end_rows(db, "declarations", event, sort=sort, name=name)
        if document is not None:
            text = msgspec.json.encode(document).decode()
            insert_row(db, "declarations", event, sort=sort, name=name, document=text)


def _declaration(event: Recorded) -> tuple[str, str, object]:
    payload = event.payload
    if isinstance(payload, PolicySet):
        return "decay", payload.policy_id, payload.policy
    if isinstance(payload, ProfileSet):
        return "profile", payload.name, payload.document
    if isinstance(payload, EmbeddingModelPinned):
        return "embedding", "model", payload
    assert isinstance(payload, SetValuedDeclared)
    return "set_valued", "relations", payload.relations


_AT = """
SELECT name, document FROM declarations
WHERE sort=? AND from_position<=? AND to_position>? ORDER BY name
"""


def decay_policies(db: apsw.Connection, position: int) -> list[DecayPolicy]:
    """The decay policies in force at a position, by id."""
    return [_decode_policy(text) for _, text in query(db, _AT, ("decay", position, position))]


class InstalledProfiles:
    """Recall profiles installed over the built-in ones, at any position. The writer replaces it
    after a change, so a recall reads no table for it."""

    def __init__(self, rows: Sequence[tuple[int, int, str, str]] = ()) -> None:
        self._rows = rows
        """First and last position, name and document."""

    def at(self, position: int) -> dict[str, dict[str, Any]]:
        """Documents by name, as of a position."""
        return {
            name: _decode_document(text)
            for start, end, name, text in self._rows
            if start <= position < end
        }


def load_profiles(db: apsw.Connection) -> InstalledProfiles:
    """Every profile ever installed."""
    sql = (
        "SELECT from_position, to_position, name, document FROM declarations"
        " WHERE sort='profile' ORDER BY name"
    )
    return InstalledProfiles([(a, b, name, text) for a, b, name, text in query(db, sql)])


def set_valued_relations(db: apsw.Connection, position: int) -> list[str]:
    """Declared patterns of set-valued relations at a position (without the built-in ones)."""
    found = query_one(db, _AT, ("set_valued", position, position))
    return [] if found is None else msgspec.json.decode(found[1], type=list[str])


def is_set_valued(db: apsw.Connection, relation: str) -> bool:
    """Whether a relation may hold several values at once, by present declarations."""
    patterns = (*ALWAYS_SET_VALUED, *set_valued_relations(db, LIVE - 1))
    return any(matches_label(pattern, relation) for pattern in patterns)


def pinned_model(db: apsw.Connection, position: int) -> EmbeddingModelPinned | None:
    """The embedding model in force at a position; None before the first was pinned."""
    found = query_one(db, _AT, ("embedding", position, position))
    return None if found is None else msgspec.json.decode(found[1], type=EmbeddingModelPinned)


_SET_VALUED = """
SELECT from_position, document FROM declarations WHERE sort='set_valued' ORDER BY from_position
"""

_decode_declared = msgspec.msgpack.Decoder(list[tuple[int, list[str]]]).decode


class SetValuedPart(SmallPart):
    """Which relations were set-valued, as of any position."""

    kinds = frozenset({"set_valued_declared"})

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._patterns: list[tuple[str, ...]] = []
        self._covered: dict[tuple[str, int], bool] = {}

    def load(self, db: apsw.Connection) -> None:
        for position, document in query(db, _SET_VALUED):
            self._add(position, msgspec.json.decode(document, type=list[str]))

    def fold_event(self, event: Recorded) -> None:
        assert isinstance(event.payload, SetValuedDeclared)
        self._add(event.position, event.payload.relations)

    def state(self) -> bytes:
        return msgspec.msgpack.encode(list(zip(self._positions, self._patterns, strict=True)))

    def restore(self, state: bytes) -> None:
        for position, patterns in _decode_declared(state):
            self._add(position, patterns)

    def _add(self, position: int, patterns: Iterable[str]) -> None:
        self._positions.append(position)
        self._patterns.append(tuple(patterns))

    def covers(self, relation: str, position: int) -> bool:
        count = bisect_right(self._positions, position)
        known = self._covered.get((relation, count))
        if known is None:
            declared = self._patterns[count - 1] if count else ()
            patterns = (*ALWAYS_SET_VALUED, *declared)
            known = any(matches_label(pattern, relation) for pattern in patterns)
            self._covered[relation, count] = known
        return known


_NAMES = """
    allergic_to answered asked assistant_said attended belongs_to child colleague dislikes
    event friend goal has hobby interest interested_in knows language likes member_of
    mentioned mentions message note owns parent participant pet plays said sibling skill
    speaks studied tag tagged turn user_said uses visited wants watched worked_on works_on
    works_with wrote
"""
USUAL_RELATIONS = tuple(
    sorted(
        {
            f"{prefix}{spelled}"
            for name in _NAMES.split()
            for spelled in (name, name.replace("_", "-"))
            for prefix in ("", "memory:")
        }
    )
)
"""Each bare and below ``memory:``, with ``_`` and with ``-``. The event of the first start carries
the list, so a later release changes no existing log."""
