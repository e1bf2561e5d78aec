"""Episodes and their contents, for laws over whole histories."""

from typing import Any

import apsw
from hypothesis import strategies as st

from engramlog.eventlog.kinds import EpisodeRecorded
from engramlog.projections.authorization import everything
from engramlog.projections.episodes import reading, reading_deltas, reading_rules
from engramlog.projections.episodes.reading_deltas import DeltaFilter
from tests.worlds.histories import START_US, USERS

said = st.builds(
    lambda user, intent, subject, value, replaces: (user, intent, subject, value, replaces),
    st.sampled_from(("Alice", "alice")),
    st.sampled_from((None, None, None, None, "add", "update", "delete", "noop", "explode")),
    st.sampled_from(("self", "boss", None)),
    st.sampled_from(("A", "B", 3, ["x"])),
    st.integers(0, 12),
)


def episode(number: int, said: tuple[Any, ...]) -> EpisodeRecorded:
    user, intent, subject, value, replaces = said
    metadata: dict[str, Any] = {"predicate": "role", "object": value}
    if subject is not None:
        metadata["subject"] = subject
    if intent is not None:
        metadata["intent"] = intent
        metadata["replaces"] = [f"ep-{replaces}"]
    return EpisodeRecorded(
        scope="local",
        user=user,
        session="s",
        agent="rag",
        content=f"words of {number}",
        at_us=START_US + number,
        id=f"ep-{number}",
        metadata=metadata,
    )


def answers_at(db: apsw.Connection, position: int) -> list[Any]:
    """All answers about episodes, deltas and rules at a position."""
    mine = [
        (
            reading.recent(db, everything(), position, user=user, limit=100),
            reading_deltas.memory_facts_at(db, position, user=user),
            reading_deltas.deltas_at(db, everything(), position, DeltaFilter(user=user), limit=100),
            reading_deltas.rejections_at(
                db, everything(), position, DeltaFilter(user=user), limit=100
            ),
        )
        for user in USERS
    ]
    rules = [
        reading_rules.rules_at(db, position),
        reading_rules.runs_of(db, everything(), "classifier", position, 100),
        reading_rules.watermark(db, "classifier", position),
        reading_rules.episodes_read(db, everything(), "classifier", position),
    ]
    return [*mine, *rules]
