"""The text of a card: cells, lines, sections, and their sizes in bytes.

Values are data, never structure: line breaks and bars cannot leave their cell.
"""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from engramlog.projections.cards.fact import CardFact
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.cards import CardKey

LABEL_BYTES_MAX = 300
VALUE_BYTES_MAX = 4_000
SIDE_BYTES_MAX = 500
"""The longest relation, source or value, in a row and in a contradiction. A longer one is cut and
followed by its length and hash, so that two cut values still differ."""
SUMMARY_FACTS_MAX = 20

_SPACE = re.compile(r"\s+")
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_FACTS_HEAD = (
    "\n## Facts\n\n"
    "| relation | value | confidence | status | source | recorded |\n"
    "|---|---|---|---|---|---|\n"
)
_DISPUTES_HEAD = "\n## Contradictions\n\n"
_SOURCES_HEAD = "\n## Sources\n\n"
_COUNT_MAX = 10_000_000


def cell(text: str, bytes_max: int) -> str:
    """``text`` in a cell of a table, cut to about ``bytes_max`` bytes."""
    return line(text, bytes_max).replace("\\", "\\\\").replace("|", "\\|")


def line(text: str, bytes_max: int) -> str:
    """``text`` on one line, cut to about ``bytes_max`` bytes."""
    # One pattern for both would read a long run of spaces again from each of them.
    flat = _SPACE.sub(lambda run: " ⏎ " if _BREAK.search(run[0]) else run[0], text)
    data = flat.encode()
    if len(data) > bytes_max:
        mark = sha256(text.encode()).hexdigest()[:8]
        flat = data[:bytes_max].decode(errors="ignore")
        flat = f"{flat}… [{len(text.encode())} bytes, sha256 {mark}]"
    return flat


def fact_row(fact: CardFact) -> str:
    """A fact's line of the table."""
    cells = (
        cell(fact.relation, LABEL_BYTES_MAX),
        cell(fact.value, VALUE_BYTES_MAX),
        f"{fact.confidence:.2f}",
        fact.status,
        cell(fact.source, LABEL_BYTES_MAX),
        _second(fact.recorded_at),
    )
    return f"| {' | '.join(cells)} |\n"


def contradiction_line(sides: Sequence[CardFact]) -> str:
    """All sides of one contradiction, best first, each with its confidence."""
    shown = " ≠ ".join(
        f"{cell(side.value, SIDE_BYTES_MAX)} (confidence {side.confidence:.2f},"
        f" {cell(side.source, LABEL_BYTES_MAX)})"
        for side in sides
    )
    return f"- {cell(sides[0].relation, LABEL_BYTES_MAX)}: {shown}\n"


def source_line(source: str, count: int, trust: float) -> str:
    """How many of the shown facts a source stated, and the trust in it."""
    return f"- {cell(source, LABEL_BYTES_MAX)}: {count} facts, trust {trust:.2f}\n"


def omission_line(omitted: int) -> str:
    """The seed's line for facts that did not fit (§20.4.2)."""
    return f"\n… {omitted} lower-confidence facts omitted\n"


def disputes_omission_line(omitted: int) -> str:
    """The line for contradictions of which no side is shown."""
    return f"\n… {omitted} contradictions omitted\n"


def render(
    key: CardKey,
    shown: Sequence[CardFact],
    disputes: Sequence[Sequence[CardFact]],
    *,
    omitted: int,
    disputes_omitted: int,
) -> str:
    """The whole text; ``shown`` in the order of the rows."""
    newest = max((fact.recorded_at for fact in shown), default=None)
    parts = [_head(key, len(shown) + omitted, newest), _FACTS_HEAD, *map(fact_row, shown)]
    if omitted:
        parts.append(omission_line(omitted))
    if disputes or disputes_omitted:
        parts += [_DISPUTES_HEAD, *map(contradiction_line, disputes)]
    if disputes_omitted:
        parts.append(disputes_omission_line(disputes_omitted))
    trust = {fact.source: fact.trust for fact in shown}
    counts = Counter(fact.source for fact in shown)
    parts.append(_SOURCES_HEAD)
    parts += [source_line(source, counts[source], trust[source]) for source in sorted(counts)]
    return "".join(parts)


def _head(key: CardKey, facts: int, newest_us: int | None) -> str:
    lines = [f"# {cell(key.entity, LABEL_BYTES_MAX)}\n\n", f"- scope: {key.scope}\n"]
    if key.garden is not None:
        lines.append(f"- garden: {cell(key.garden, LABEL_BYTES_MAX)}\n")
    if key.ceiling is not None:
        lines.append(f"- classification up to: {cell(key.ceiling, LABEL_BYTES_MAX)}\n")
    lines.append(f"- facts: {facts}\n")
    if newest_us is not None:
        lines.append(f"- newest: {_second(newest_us)}\n")
    return "".join(lines)


def ranked(shown: Sequence[CardFact]) -> list[CardFact]:
    """Best first, the newer among equals."""
    return sorted(shown, key=lambda fact: (-fact.effective, -fact.hlc, fact.id))


def short_form(key: CardKey, facts: Sequence[CardFact], omitted: int) -> str:
    """The protocol's short form (wire 5.3)."""
    lines = [f"Entity: {key.entity}", "Facts:"]
    for fact in facts:
        mark = "" if fact.status == "current" else f" [{fact.status}]"
        value = line(fact.value, SIDE_BYTES_MAX)
        lines.append(f"  {fact.relation}: {value} (conf={fact.confidence:.2f}){mark}")
    if omitted:
        lines.append(f"… {omitted} lower-confidence facts omitted")
    return "\n".join(lines)


def _second(instant_us: int) -> str:
    return f"{format_instant(instant_us)[:19]}Z"


class Room:
    """The bytes left in a card. Reserved lines (heads, omissions) count at their longest, so the
    text never exceeds the limit."""

    def __init__(self, key: CardKey, bytes_max: int) -> None:
        fixed = (
            _head(key, _COUNT_MAX, 0),
            _FACTS_HEAD,
            omission_line(_COUNT_MAX),
            _DISPUTES_HEAD,
            disputes_omission_line(_COUNT_MAX),
            _SOURCES_HEAD,
        )
        self._left = bytes_max - sum(len(text.encode()) for text in fixed)
        self._sources: set[str] = set()

    def take(self, facts: Sequence[CardFact], sides: Sequence[CardFact]) -> bool:
        """Add these facts and their contradiction if they fit; returns whether they did."""
        members = [fact for fact in facts if fact.member]
        fresh = {fact.source: fact.trust for fact in members if fact.source not in self._sources}
        lines = [fact_row(fact) for fact in members]
        lines += [source_line(source, _COUNT_MAX, trust) for source, trust in fresh.items()]
        if sides:
            lines.append(contradiction_line(sides))
        cost = sum(len(line.encode()) for line in lines)
        if cost > self._left:
            return False
        self._left -= cost
        self._sources.update(fresh)
        return True
