"""Lines of an import file about the progress of consolidation rules.

A run names its episodes by the file's keys. Positions of the other log become the positions of
these episodes here.
"""

from typing import Literal

from msgspec import Struct, field

from engramlog.api.answers.same_fields import shaped
from engramlog.api.transfer.lines.base import Line, LineError, line_instant
from engramlog.api.transfer.lines.gardens import Destination
from engramlog.eventlog.kinds import ConsolidationRan, EpisodeKey, SetAsideEpisode
from engramlog.projections.writing.commands import Command


class SetAside(Struct, frozen=True, forbid_unknown_fields=True):
    """An episode (by key) that a rule set aside, and the reason."""

    episode: EpisodeKey
    reason: str


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    """A rule read the episodes behind ``after`` up to ``through`` (keys; null: the beginning).

    The counts are the episodes' outcomes; ``again`` marks a repetition, which does not move the
    watermark.
    """

    rule_id: str
    run_id: str
    at: str
    after: EpisodeKey | None = None
    through: EpisodeKey | None = None
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


def run_command(line: RunLine, node: Destination) -> Command:
    """Note a rule's progress. Raises LineError."""
    after, through = (_position(name, getattr(line, name), node) for name in ("after", "through"))
    if after > through:
        raise LineError("must not be before after", "through")
    for name in ("episodes", "applied", "known", "rejected", "gated"):
        if getattr(line, name) < 0:
            raise LineError("must not be negative", name)
    scheduled = line.scheduled_at
    return shaped(
        line,
        ConsolidationRan,
        from_position=after,
        to_position=through,
        at_us=line_instant(line.at, "at"),
        scheduled_us=None if scheduled is None else line_instant(scheduled, "scheduled_at"),
        replay=line.again,
        quarantined=[SetAsideEpisode(each.episode, each.reason) for each in line.set_aside],
    )


def _position(name: str, episode: str | None, node: Destination) -> int:
    if episode is None:
        return 0
    position = node.position_of(episode)
    if position is None:
        raise LineError(f"no episode {episode!r}", name)
    return position
