"""The steps of pairs of worlds that differ only in private facts: few names, so that they meet."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from engramlog.eventlog.kinds import Value
from engramlog.projections.normalization import SCOPES

START_US = 1_700_000_000_000_000
STEP_US = 3_600_000_000
SECOND_US = 1_000_000
MEMBER, OUTSIDER = "agent:member", "agent:outsider"
GARDENS = ("ops", "waiting")
"""Slugs; the second is a quarantine."""
ALL_SCOPES = frozenset(SCOPES)

ENTITIES = ("stigmem://t/user/a", "stigmem://t/user/b", "stigmem://t/user/c", "project:x")
RELATIONS = ("memory:role", "rel:knows", "tag:x")
SOURCES = ("agent:one", "agent:two", MEMBER, OUTSIDER)
VALUES = (
    Value("string", "chief of tea"),
    Value("string", "keeper of tea and secrets"),
    Value("text", "atlas keeps the ledger of secrets"),
    Value("ref", "stigmem://t/user/a"),
    Value("ref", "stigmem://t/user/b"),
    Value("ref", "project:x"),
    Value("number", "42.0"),
)
SCOPE = "company"
USERS = ("alice", "bob")
NAMING: dict[str, Any] = {
    "name": "naming",
    "description": "stages that no built-in profile of the tests has",
    "stages": [
        {"name": "summaries", "weight": 0.5, "parameters": {"keyword_length": 1}},
        {"name": "entity_edges", "weight": 0.5, "parameters": {"word_length": 1}},
        {"name": "fuzzy", "weight": 0.5, "parameters": {"coverage": True}},
    ],
    "ambient": {"ceiling": 0.3, "facts_min": 1},
}
SUMMARIES = ("weekly/weekly_2026-W25.md", "daily/daily_2026-06-15.md")
MEMORIES = (
    "atlas drinks the black tea",
    "the black tea atlas drinks",
    "atlas no longer drinks black tea",
    "atlas keeps a ledger",
)
"""Texts of memories: the second is the first in other words, the third ends either."""
NAMES = ("ep-0", "ep-1", "ep-2")
"""Of episodes, and of the facts that deltas write: the same everywhere."""


class SameWords:
    """Texts with the same words are similar, as their vectors might be."""

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        words = sorted(text.split())
        return [1.0 if sorted(other.split()) == words else 0.0 for other in others]


ALIKE = SameWords()


class Step(Struct, frozen=True):
    """One move: the action, its visibility, and numbers for its choices."""

    kind: str
    private: bool
    entity: int = 0
    relation: int = 0
    value: int = 0
    source: int = 0
    garden: int = 0
    pick: int = 0
    confidence: float = 1.0
    derived: bool = False


_kinds = st.sampled_from(
    (
        "fact",
        "fact",
        "fact",
        "fact",
        "classified",
        "classified",
        "reclassify",
        "retract",
        "resolve",
        "sweep",
        "recall",
        "review",
        "episode",
        "delta",
        "delta",
        "look",
        "summary",
        "memory",
        "memory",
        "merge",
    )
)
steps = st.builds(
    Step,
    kind=_kinds,
    private=st.booleans(),
    entity=st.integers(0, len(ENTITIES) - 1),
    relation=st.integers(0, len(RELATIONS) - 1),
    value=st.integers(0, len(VALUES) - 1),
    source=st.integers(0, len(SOURCES) - 1),
    garden=st.integers(0, 1),
    pick=st.integers(0, 50),
    confidence=st.sampled_from((1.0, 1.0, 0.9, 0.4, 0.0)),
    derived=st.booleans(),
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 20) -> list[Step]:
    """Two gardens (made before or after the first public facts), and events in and outside them;
    the same names everywhere, so that private and public facts meet."""
    opening = [Step("garden", True, garden=0), Step("garden", True, garden=1)]
    before = draw(st.lists(steps.filter(lambda step: not step.private), max_size=3))
    return [*before, *opening, *draw(st.lists(steps, min_size=3, max_size=max_size))]
