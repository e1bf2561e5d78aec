"""Episodes and their contents, for laws over whole histories."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from engramlog.eventlog.kinds import EpisodeRecorded
from tests.worlds.histories import START_US

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
