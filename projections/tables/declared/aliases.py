"""``aliases``: other names of entities, and a look-up by moment.

An alias leads from one stored name to another, which may be an alias itself. The decision that sets
an alias refuses cycles. Source: wire 1.3 and 2.2.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import AliasSet
from engramlog.projections.columns.names.entity_names import phrase_of
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_value, where_in
from engramlog.projections.tables.erasing import POSITIONS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import end_rows, insert_row, rows_as


class AliasRow(Struct, frozen=True):
    """One alias and its interval; times in microseconds."""

    raw_uri: str
    canonical_uri: str
    kind: Literal["user", "migration"]
    set_at: int
    from_position: int
    to_position: int


class AliasesProjector(Projector):
    """Rows of ``aliases``."""

    name = "aliases"
    version = 1
    schema = f"""
    CREATE TABLE aliases (
        raw_uri TEXT NOT NULL,
        canonical_uri TEXT NOT NULL,
        kind TEXT NOT NULL,
        set_by TEXT NOT NULL,
        set_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (raw_uri, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX aliases_live ON aliases (raw_uri) WHERE to_position = {LIVE};
    """
    kinds = frozenset({"alias_set"})
    erasing = (f"DELETE FROM aliases WHERE from_position IN {POSITIONS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        alias = event.payload
        assert isinstance(alias, AliasSet)
        end_rows(db, "aliases", event, raw_uri=alias.raw_uri)
        if alias.canonical_uri is not None:
            by, at = event.header.actor, event.header.recorded_at
            insert_row(db, "aliases", event, kind=alias.alias_kind, set_by=by, set_at=at)


def load_aliases(db: apsw.Connection, names: Collection[str] | None = None) -> list[AliasRow]:
    """Aliases ever set, oldest first: all, or those of some names."""
    where, bindings = where_in("raw_uri", names)
    return rows_as(AliasRow, db, f"FROM aliases WHERE {where} ORDER BY from_position", bindings)


def count_aliases(db: apsw.Connection) -> int:
    """How many aliases were ever set and are not erased."""
    return query_value(db, "SELECT count(*) FROM aliases")


def live_alias(db: apsw.Connection, raw_uri: str) -> tuple[str, str] | None:
    """(canonical, kind) of a live alias, read in the deciding transaction."""
    rows = query(
        db,
        f"SELECT canonical_uri, kind FROM aliases WHERE raw_uri=? AND to_position={LIVE}",
        (raw_uri,),
    )
    return (rows[0][0], rows[0][1]) if rows else None


class AliasBook:
    """All aliases by name. Immutable: a change makes a new book, so readers need no lock."""

    def __init__(self, rows: Iterable[AliasRow] = ()) -> None:
        self._by_raw: dict[str, tuple[AliasRow, ...]] = {}
        self._by_phrase: dict[str, tuple[str, ...]] = {}
        self._add(rows)

    def updated(self, rows: Iterable[AliasRow]) -> "AliasBook":
        """This book with all aliases of some names."""
        book = AliasBook()
        book._by_raw, book._by_phrase = dict(self._by_raw), dict(self._by_phrase)
        book._add(rows)
        return book

    def _add(self, rows: Iterable[AliasRow]) -> None:
        by_name: dict[str, list[AliasRow]] = {}
        for row in rows:
            by_name.setdefault(row.raw_uri, []).append(row)
        for name, of_name in by_name.items():
            if name not in self._by_raw:
                phrase = phrase_of(name)
                self._by_phrase[phrase] = (*self._by_phrase.get(phrase, ()), name)
            self._by_raw[name] = tuple(of_name)

    @property
    def count(self) -> int:
        """How many aliases it has, ended ones too."""
        return sum(map(len, self._by_raw.values()))

    def resolve(self, name: str, position: int) -> str:
        """The entity that a stored name meant at a position; the name itself if it was no alias."""
        if not self._by_raw:
            return name
        # The longest possible chain, should the aliases form a cycle.
        for _ in range(len(self._by_raw)):
            row = self.get(name, position)
            if row is None:
                break
            name = row.canonical_uri
        return name

    def get(self, name: str, position: int) -> AliasRow | None:
        """The alias of exactly this name at a position."""
        for row in self._by_raw.get(name, ()):
            if row.from_position <= position < row.to_position:
                return row
        return None

    def named(self, phrase: str, position: int) -> Sequence[str]:
        """The entities that aliases with this display name meant at a position."""
        names = sorted(self._by_phrase.get(phrase, ()))
        found = [self.resolve(n, position) for n in names if self.get(n, position) is not None]
        return tuple(dict.fromkeys(found))

    def list(
        self, position: int, after: str, limit: int, shown: Callable[[AliasRow], bool]
    ) -> list[AliasRow]:
        """Live aliases at a position that pass ``shown``, by name, after ``after``."""
        names = sorted(name for name in self._by_raw if name > after)
        aliases: list[AliasRow] = []
        for name in names:
            row = self.get(name, position)
            if row is not None and shown(row):
                aliases.append(row)
                if len(aliases) == limit:
                    break
        return aliases
