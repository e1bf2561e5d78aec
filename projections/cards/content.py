"""The text of a card: Markdown and figures from facts alone (seed §20.4.2).

Facts come in groups, best first: a single fact, or all sides of one contradiction. Groups are added
in that order while the text fits ``TOKENS_MAX``. So the card shows the facts of highest confidence
and never one side of a contradiction alone: a contradiction that is too large is shown by its two
best sides.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from engramlog.projections.cards.fact import CardFact
from engramlog.projections.cards.markdown import SUMMARY_FACTS_MAX, Room, ranked, render, short_form
from engramlog.projections.tables.facts.cards import CardKey

TOKENS_MAX = 4_000
BYTES_PER_TOKEN = 4


class Card(Struct, frozen=True):
    """A card at a Moment.

    Attributes:
        markdown: the seed's structured text, at most ``TOKENS_MAX`` tokens.
        summary: the protocol's short form.
        shown: the facts with a row, in the order of the rows.
        summarized: the facts in the short form, best first.
        disputes: the sides of each open contradiction shown, best first.
        facts: how many facts are confident enough for the card.
        omitted: how many of them did not fit.
        avg_confidence: mean effective confidence of the shown facts, without those set aside.
        has_contradictions: whether a contradiction is open, shown or not.
        hlc, recorded_at, position: of the newest fact shown.
    """

    key: CardKey
    markdown: str
    summary: str
    shown: tuple[CardFact, ...]
    summarized: tuple[CardFact, ...]
    disputes: tuple[tuple[CardFact, ...], ...]
    facts: int
    omitted: int
    avg_confidence: float
    has_contradictions: bool
    hlc: int
    recorded_at: int
    position: int

    @property
    def fact_hashes(self) -> list[str]:
        """SHA-256 of each shown fact's id, in hex (wire 5.3)."""
        return [sha256(fact.id.encode()).hexdigest() for fact in self.shown]

    @property
    def tokens(self) -> int:
        """The cost of the Markdown for a reader."""
        return tokens_of(self.markdown)


Group = Sequence[CardFact]
"""A single fact, or every side of one contradiction; best first."""


def tokens_of(text: str) -> int:
    """UTF-8 bytes by four, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def write_card(
    key: CardKey, groups: Sequence[Group], *, facts: int, contradictions: int, denied: bool = False
) -> Card | None:
    """The card of ``groups``, or None if it would be empty.

    Args:
        facts: the number of all members, in ``groups`` or not.
        contradictions: the number of all open contradictions.
        denied: whether another source denies a member.
    """
    if not facts:
        return None
    room = Room(key, TOKENS_MAX * BYTES_PER_TOKEN)
    shown: list[CardFact] = []
    disputes: list[list[CardFact]] = []
    for group in groups:
        taken = group if room.take(group, sides_of(group)) else _best_two_sides(group, room)
        if not taken:
            break
        shown += [fact for fact in taken if fact.member]
        if len(taken) > 1:
            disputes.append(sides_of(taken))
    shown.sort(key=lambda fact: (fact.relation, -fact.hlc, fact.id))
    disputes.sort(key=lambda sides: sides[0].relation)
    newest = max(shown, key=lambda fact: (fact.hlc, fact.id), default=None)
    standing = [fact.effective for fact in shown if fact.status != "set aside"]
    summary = ranked(shown)[:SUMMARY_FACTS_MAX]
    omitted, left = facts - len(shown), contradictions - len(disputes)
    return Card(
        key=key,
        markdown=render(key, shown, disputes, omitted=omitted, disputes_omitted=left),
        summary=short_form(key, summary, facts - len(summary)),
        shown=tuple(shown),
        summarized=tuple(summary),
        disputes=tuple(tuple(sides) for sides in disputes),
        facts=facts,
        omitted=omitted,
        avg_confidence=round(sum(standing) / len(standing), 6) if standing else 0.0,
        has_contradictions=contradictions > 0 or denied,
        hlc=0 if newest is None else newest.hlc,
        recorded_at=0 if newest is None else newest.recorded_at,
        position=0 if newest is None else newest.position,
    )


def sides_of(group: Group) -> list[CardFact]:
    """The best fact of each value of a contradiction; none for a single fact."""
    if len(group) < 2:
        return []
    best: dict[tuple[str, str], CardFact] = {}
    for fact in group:
        best.setdefault((fact.value_type, fact.value), fact)
    return list(best.values())


def _best_two_sides(group: Group, room: Room) -> Group:
    """Two sides of a contradiction that does not fit completely, of two sources if it has two; or
    none."""
    sides = sides_of(group)
    if len(sides) < 2:
        return []
    first, others = sides[0], sides[1:]
    both = [first, next((each for each in others if each.source != first.source), others[0])]
    return both if room.take(both, both) else []
