"""Lines of an import file that say how far consolidation rules have read.

A run says which episodes it read by the file's own keys; what it knew as positions of another
log becomes the positions that these episodes have here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from engramlog.api.transfer.lines.base import Line, LineError, line_instant
from engramlog.eventlog.kinds import ConsolidationRan, SetAsideEpisode
from engramlog.projections.writing.commands import Command

PositionOf: TypeAlias = Callable[[str], int | None]
"""The position of an episode, by its key here."""


class SetAside(Struct, frozen=True, forbid_unknown_fields=True):
    """An episode (by key) of which a rule could make nothing, and why."""

    episode: str
    reason: str


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    """A rule read the episodes behind ``after`` up to ``through`` (keys; null: the beginning).

    The counts say what became of them; ``again`` marks a repetition, which moves no watermark.
    """

    rule_id: str
    run_id: str
    at: str
    after: str | None = None
    through: str | None = None
    trigger: Literal["manual", "every", "cron"] = "manual"
    asked_by: str | None = None
    scheduled_at: str | None = None
    again: bool = False
    episodes: int = 0
    applied: int = 0
    known: int = 0
    rejected: int = 0
    gated: int = 0
    set_aside: list[SetAside] = field(default_factory=list)


def run_command(line: RunLine, position_of: PositionOf) -> Command:
    """Note how far a rule has read. Raises LineError."""
    after, through = (
        _position(name, getattr(line, name), position_of) for name in ("after", "through")
    )
    if after > through:
        raise LineError("must not be before after", "through")
    for name in ("episodes", "applied", "known", "rejected", "gated"):
        if getattr(line, name) < 0:
            raise LineError("must not be negative", name)
    scheduled = line.scheduled_at
    return ConsolidationRan(
        rule_id=line.rule_id,
        run_id=line.run_id,
        from_position=after,
        to_position=through,
        at_us=line_instant(line.at, "at"),
        trigger=line.trigger,
        asked_by=line.asked_by,
        scheduled_us=None if scheduled is None else line_instant(scheduled, "scheduled_at"),
        replay=line.again,
        episodes=line.episodes,
        applied=line.applied,
        known=line.known,
        rejected=line.rejected,
        gated=line.gated,
        quarantined=[SetAsideEpisode(each.episode, each.reason) for each in line.set_aside],
    )


def _position(name: str, episode: str | None, position_of: PositionOf) -> int:
    if episode is None:
        return 0
    position = position_of(episode)
    if position is None:
        raise LineError(f"there is no episode {episode!r}", name)
    return position
