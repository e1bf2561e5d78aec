"""Which lines of an import state facts that are live already.

A file may be imported again and again, as a notebook or a conversation that grows is, and adds only
what is new.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeGuard, cast

from msgspec.structs import replace

from engramlog.api.transfer.lines.facts import AssertLine
from engramlog.api.transfer.lines.key_translation import Finder, Translator
from engramlog.api.transfer.lines.line_kinds import AnyLine

Known: TypeAlias = Literal["write", "leave", "count", "export"]
"""Of facts that are live already: ``write`` them, or ``leave`` them out; ``count``: the same, but
of equal lines without a ``valid_from``, as in a conversation, each is a fact; ``export``: leave
those out whose key is an id, as each of these is a fact of its own."""


class KnownFacts:
    """Of one import. ``finder``: finds the live facts of lines; ``translator``: of their keys."""

    def __init__(self, finder: Finder, translator: Translator, known: Known) -> None:
        self._finder = finder
        self._translator = translator
        self._known: Known = known
        self._equal: Counter[tuple[str | None, ...]] = Counter()

    def nth(self, line: AnyLine) -> int:
        """How many equal lines there are up to this one, if each is a fact; else 1. Ask once, in
        the order of the file. Raises LineError."""
        known = self._known
        if known not in ("count", "export") or not self._may_be_live(line):
            return 1
        if known == "count" and line.valid_from:
            return 1
        content = self._translator.cid_of(line), line.valid_from, line.valid_until, line.garden_id
        self._equal[content] += 1
        return self._equal[content]

    def live(self, lines: Sequence[AnyLine], nths: Sequence[int]) -> list[str | None]:
        """For each line the id of the live fact that it states, if it is left out. ``nths``: see
        ``nth``."""
        found: list[str | None] = [None] * len(lines)
        if self._known == "write":
            return found
        places = [place for place, line in enumerate(lines) if self._may_be_live(line)]
        asked = [cast("AssertLine", lines[place]) for place in places]
        for place, line, ids in zip(places, asked, self._finder.find_known(asked), strict=True):
            nth = nths[place]
            found[place] = (
                line.key if line.key in ids else ids[nth - 1] if nth <= len(ids) else None
            )
        return found

    def stated(self, line: AnyLine, nth: int) -> AnyLine:
        """The line as it is written: a further one of equal lines is a fact of its own."""
        if nth > 1 and self._known == "count" and isinstance(line, AssertLine):
            return replace(line, again=True)
        return line

    def _may_be_live(self, line: AnyLine) -> TypeGuard[AssertLine]:
        """Whether a fact's content and validity are all that the line says, or its key is an id."""
        if not isinstance(line, AssertLine):
            return False
        if self._known == "export":
            return line.names_fact
        more = line.garden_id or line.attributes or line.derived_from or line.again
        return line.confidence > 0 and not more
