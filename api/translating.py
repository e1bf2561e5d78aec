"""Keys of an import file, replaced by the ids and content hashes of the facts they stand for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from api.lines import (
    AnyLine,
    AssertLine,
    AttributesLine,
    LineError,
    ResolveLine,
    RetractLine,
    assert_intent,
    parent_hash,
)
from eventlog.kinds import Parent


class Translator:
    """Keys of the file → fact ids and content hashes."""

    def __init__(self, find: Callable[[str], str | None], value_bytes_max: int) -> None:
        self._find = find
        self._value_bytes_max = value_bytes_max
        self._known: dict[str, tuple[str, str]] = {}
        self._left_out: dict[str, str] = {}
        self.pending: set[str] = set()

    def announce(self, line: AnyLine) -> None:
        """A line is about to be written. Raises LineError where its key was used before."""
        key = line.key if isinstance(line, AssertLine) else None
        if key is None:
            return
        if key in self.pending or key in self._known or key in self._left_out:
            raise LineError(f"{key!r} is the key of an earlier line", "key")
        self.pending.add(key)

    def learn(self, line: AnyLine, fact_id: str | None) -> None:
        """A line was written (or not, without an id)."""
        if isinstance(line, AssertLine) and line.key is not None:
            self.pending.discard(line.key)
            if fact_id is not None:
                self._known[line.key] = (fact_id, self._cid(line))

    def leave_out(self, line: AnyLine) -> None:
        """A line that an earlier run imported; its fact is looked up if its key is used."""
        if isinstance(line, AssertLine) and line.key is not None:
            self._left_out[line.key] = self._cid(line)

    def names_pending(self, line: AnyLine) -> bool:
        """Whether the line names a key of the batch that is not written yet."""
        return any(key in self.pending for key in _keys_named(line))

    def translate(self, line: AnyLine) -> AnyLine:
        """The line with ids and hashes for its keys. Raises LineError."""
        match line:
            case AssertLine() if line.derived_from:
                parents: list[str | Parent] = [self._parent(item) for item in line.derived_from]
                return msgspec.structs.replace(line, derived_from=parents)
            case RetractLine():
                given = (line.target, line.id, line.match)
                if sum(item is not None for item in given) != 1:
                    raise LineError("needs exactly one of target, id and match", "target")
                if line.target is None:
                    return line
                fact_id, _ = self._lookup(line.target, "target")
                return msgspec.structs.replace(line, target=None, id=fact_id)
            case AttributesLine():
                if (line.target is None) == (line.id is None):
                    raise LineError("needs either target or id", "target")
                if line.target is None:
                    return line
                fact_id, _ = self._lookup(line.target, "target")
                return msgspec.structs.replace(line, target=None, id=fact_id)
            case ResolveLine():
                winner, _ = self._lookup(line.winner, "winner", ids=True)
                loser, _ = self._lookup(line.loser, "loser", ids=True)
                return msgspec.structs.replace(line, winner=winner, loser=loser)
            case _:
                return line

    def _parent(self, item: str | Parent) -> str | Parent:
        if not isinstance(item, str) or (item not in self._known and parent_hash(item)):
            return item
        fact_id, cid = self._lookup(item, "derived_from")
        return Parent(cid.removeprefix("sha256:"), fact_id)

    def _lookup(self, key: str, field: str, *, ids: bool = False) -> tuple[str, str]:
        known = self._known.get(key)
        if known is not None:
            return known
        cid = self._left_out.get(key)
        fact_id = None if cid is None else self._find(cid)
        if fact_id is not None and cid is not None:
            self._known[key] = (fact_id, cid)
            return fact_id, cid
        if ids and key.count("-") == 4:
            return key, ""
        raise LineError(f"{key!r} is no key of an earlier line", field)

    def _cid(self, line: AssertLine) -> str:
        return assert_intent(line, self._value_bytes_max).cid


def _keys_named(line: AnyLine) -> list[str]:
    match line:
        case AssertLine():
            return [item for item in line.derived_from if isinstance(item, str)]
        case RetractLine() | AttributesLine():
            return [line.target] if line.target else []
        case ResolveLine():
            return [line.winner, line.loser]
        case _:
            return []
