"""Keys of an import file, replaced by the ids and hashes of their facts and episodes.

A key from a line of the same batch of deltas stays: the writer resolves it (``RestateBatch``).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.declarations import HoldLine
from engramlog.api.transfer.lines.facts import (
    ID,
    AssertLine,
    AttributesLine,
    RetractLine,
    parent_hash,
    stated_fact,
)
from engramlog.api.transfer.lines.line_kinds import AnyLine, ResolveLine
from engramlog.api.transfer.lines.memories import DeltasLine, EpisodeLine, SummaryLine
from engramlog.api.transfer.lines.payload_lines import Change, PayloadLine, mapped, names_of
from engramlog.eventlog.kinds import Parent

_Part = TypeVar("_Part", bound=Struct)


class NamedByKey(Struct, frozen=True):
    """The target of a key: the id of a fact, or the key of an episode (whose ``name`` is its own
    id), and the hash for facts derived from it (64 hex digits)."""

    id: str
    hash: str
    name: str | None = None


class Finder(Protocol):
    """Finds facts and episodes of earlier runs."""

    def find(self, cid: str, back: int) -> str | None:
        """The id of the ``back``-th newest fact with this content id; the oldest if fewer exist."""
        ...

    def find_known(self, lines: Sequence[AssertLine]) -> list[list[str]]:
        """For each line the ids of live facts of its content and validity, oldest first; if its
        key is an id, of those that an import wrote, also ended ones, and of the fact itself."""
        ...

    def find_episode(self, line: EpisodeLine) -> NamedByKey | None:
        """The episode that a line recorded."""
        ...


class _LeftOut(Struct, frozen=True):
    """The ``number``-th fact of this content id that an earlier run imported."""

    cid: str
    number: int


class Translator:
    """The keys of the file, with their targets."""

    def __init__(self, finder: Finder, value_bytes_max: int) -> None:
        self._finder = finder
        self._value_bytes_max = value_bytes_max
        self._known: dict[str, NamedByKey] = {}
        self._left_out: dict[str, _LeftOut | EpisodeLine] = {}
        self._of_cid: Counter[str] = Counter()
        self.pending: set[str] = set()
        self._changes: dict[str, Change] = {
            "any": lambda name, _: self._where_key(name),
            # A reason may name what replaces a fact.
            "text": lambda text, _: ID.sub(lambda id: self._where_key(id[0]), text),
            "parents": self._parent,
        }

    def announce(self, line: AnyLine) -> None:
        """Note that a line is about to be written. Raises LineError if its key is in use."""
        for where, key in _keys_made(line):
            if key in self.pending or key in self._known or key in self._left_out:
                raise LineError(f"{key!r} is the key of an earlier line", where)
            self.pending.add(key)

    def learn(
        self, line: AnyLine, fact_id: str | None, hash: str | None, facts: dict[str, str]
    ) -> None:
        """Note that a line was written (or not, without ids)."""
        self.pending.difference_update(key for _, key in _keys_made(line))
        if isinstance(line, EpisodeLine):
            if line.key is not None and fact_id is not None:
                self._known[line.key] = NamedByKey(fact_id, hash or "", line.id or fact_id)
            return
        for made in _facts_made(line):
            found = fact_id if isinstance(line, AssertLine) else facts.get(made.key or "")
            if made.key is not None and found is not None:
                self._known[made.key] = NamedByKey(found, self.cid_of(made).removeprefix("sha256:"))

    def leave_out(self, line: AnyLine) -> None:
        """Note a line that an earlier run imported; its facts are looked up if its key is used."""
        if isinstance(line, EpisodeLine):
            if line.key is not None:
                self._left_out[line.key] = line
            return
        for made in _facts_made(line):
            cid = self.cid_of(made)
            self._of_cid[cid] += 1
            if made.key is not None:
                self._left_out[made.key] = _LeftOut(cid, self._of_cid[cid])

    def names_pending(self, line: AnyLine) -> bool:
        """Whether the line names a key of the unwritten batch."""
        return bool(self.pending) and any(key in self.pending for key in _keys_named(line))

    def translate(self, line: AnyLine) -> AnyLine:
        """The line with ids and hashes for its keys. Raises LineError."""
        match line:
            case AssertLine() if not line.derived_from:
                return line
            case PayloadLine():
                return self._payload(line)
            case RetractLine():
                given = (line.target, line.id, line.match)
                if sum(item is not None for item in given) != 1:
                    raise LineError("needs exactly one of target, id and match", "target")
            case AttributesLine() if (line.target is None) == (line.id is None):
                raise LineError("needs either target or id", "target")
            case DeltasLine() | SummaryLine():
                line = self._then(line)
            case _:
                pass
        mine = _own_keys(line)
        line = self._changed(line, lambda key, where: self._id(key, where, mine))
        if isinstance(line, RetractLine | AttributesLine | HoldLine) and line.target is not None:
            return replace(line, target=None, id=self._lookup(line.target, "target").id)
        return line

    def _payload(self, line: PayloadLine) -> PayloadLine:
        def change(key: str, where: str) -> str:
            if line.shape.either_id:
                return key if line.by_id else self._lookup(key, line.word(where)).id
            return self._id(key, line.word(where))

        payload = self._changed(line.payload, change)
        return replace(line, payload=payload, by_id=bool(line.shape.either_id))

    def _changed(self, part: _Part, change: Change) -> _Part:
        """A line or a payload with other names; ``change``: of facts and episodes by key."""
        made = mapped(part, {**self._changes, "fact": change, "episode": change})
        assert made is not None  # no name was omitted
        return made

    def _then(self, line: DeltasLine | SummaryLine) -> DeltasLine | SummaryLine:
        """The line with ids for the targets of its retractions, except of facts that it states."""
        mine = _own_keys(line)
        then = [
            self._by_id(item, f"then.{number}.target")
            if isinstance(item, RetractLine) and item.target not in mine
            else item
            for number, item in enumerate(line.then)
        ]
        return replace(line, then=then)

    def _by_id(self, line: RetractLine, where: str) -> RetractLine:
        if line.match is not None or (line.target is None) == (line.id is None):
            raise LineError("needs either target or id", where)
        if line.target is None:
            return line
        return replace(line, target=None, id=self._id(line.target, where))

    def _id(self, key: str, field: str, mine: frozenset[str] = frozenset()) -> str:
        return key if key in mine else self._lookup(key, field, ids=True).id

    def _where_key(self, name: str) -> str:
        """The name of an episode or fact here: a key's name or id; any other name unchanged."""
        if name not in self._known and name not in self._left_out:
            return name
        found = self._lookup(name, "")
        return found.name or found.id

    def _parent(self, item: str | Parent, where: str) -> str | Parent:
        if not isinstance(item, str) or (
            item not in self._known and item not in self._left_out and parent_hash(item)
        ):
            return item
        found = self._lookup(item, where)
        return Parent(found.hash, found.id if found.name is None else None)

    def _lookup(self, key: str, field: str, *, ids: bool = False) -> NamedByKey:
        known = self._known.get(key)
        if known is not None:
            return known
        found = self._looked_up(key)
        if found is not None:
            self._known[key] = found
            return found
        if ids and key.count("-") == 4:
            return NamedByKey(key, "")
        raise LineError(f"{key!r} is not the key of an earlier line", field)

    def _looked_up(self, key: str) -> NamedByKey | None:
        sought = self._left_out.get(key)
        if sought is None:
            return None
        if isinstance(sought, EpisodeLine):
            return self._finder.find_episode(sought)
        back = self._of_cid[sought.cid] - sought.number + 1
        fact_id = self._finder.find(sought.cid, back)
        return None if fact_id is None else NamedByKey(fact_id, sought.cid.removeprefix("sha256:"))

    def cid_of(self, line: AssertLine) -> str:
        """The content id. It does not cover parents, which may still be keys. Raises LineError."""
        bare = replace(line, derived_from=[]) if line.derived_from else line
        return stated_fact(bare, self._value_bytes_max).cid


def _facts_made(line: AnyLine) -> list[AssertLine]:
    """The facts that a line states."""
    if isinstance(line, AssertLine):
        return [line]
    if isinstance(line, ResolveLine):
        return [] if line.states is None else [line.states]
    if isinstance(line, DeltasLine | SummaryLine):
        return [item for item in line.then if isinstance(item, AssertLine)]
    return []


def _keys_made(line: AnyLine) -> list[tuple[str, str]]:
    """(field, key) of each key that a line defines."""
    if isinstance(line, EpisodeLine):
        return [] if line.key is None else [("key", line.key)]
    where = "key" if isinstance(line, AssertLine) else "then.key"
    where = "states.key" if isinstance(line, ResolveLine) else where
    return [(where, made.key) for made in _facts_made(line) if made.key is not None]


def _own_keys(line: AnyLine) -> frozenset[str]:
    return frozenset(key for _, key in _keys_made(line))


def _keys_named(line: AnyLine) -> list[str]:
    """The keys that a line may name."""
    named: list[str] = []
    for kind, name in names_of(line.payload if isinstance(line, PayloadLine) else line):
        if kind == "text":
            named += ID.findall(name)
        elif kind in _NAMED_BY_KEY and isinstance(name, str):
            named.append(name)
    return named


_NAMED_BY_KEY = frozenset({"fact", "episode", "any", "target", "parents"})
