"""Import lines of episodes, deltas, summaries and runs, from their events.

A batch of deltas and the facts it stated and ended are several events and become one line. A peer's
events of a batch may arrive apart, with others in between. Then the events so far go out before any
line that may name them, and the rest follows.
"""

from msgspec.structs import replace

from engramlog.api.answers.same_fields import shaped
from engramlog.api.transfer.export_names import Names
from engramlog.api.transfer.lines.facts import AssertLine, RetractLine
from engramlog.api.transfer.lines.line_kinds import AnyLine
from engramlog.api.transfer.lines.memories import (
    DeltaItem,
    DeltasLine,
    EpisodeLine,
    RunLine,
    SetAside,
    SummaryLine,
)
from engramlog.api.transfer.lines.payload_lines import instant_text
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import (
    AppliedDelta,
    ConsolidationRan,
    DeltaApplied,
    EpisodeRecorded,
    SummaryRecorded,
)

LINE_CHARACTERS = 2_000_000
"""Above this size, a batch of deltas continues in another line."""


def episode_line(event: Recorded, episode: EpisodeRecorded, names: Names) -> list[AnyLine]:
    """An episode, if it is readable. The line always has its ``id``: later lines refer to it by
    that, even if the recorder gave none."""
    if not names.sieve.episode(episode):
        return []
    key = id_text(event.event_id)
    names.add_episode(key, event.hash.hex(), event.position)
    line = shaped(
        episode,
        EpisodeLine,
        key=key,
        id=episode.id or key,
        timestamp=instant_text(episode.at_us),
        garden_id=names.garden(episode.garden_id),
        recorded_by=event.header.actor,
    )
    return [line]


def run_line(run: ConsolidationRan, names: Names) -> list[AnyLine]:
    """A rule's progress, if its episodes are readable: positions become the last episodes before
    them."""
    if not names.sieve.rule(run.rule_id):
        return []
    kept = {each.episode: each.reason for each in run.quarantined}
    scheduled = run.scheduled_us
    line = shaped(
        run,
        RunLine,
        at=instant_text(run.at_us),
        after=names.last_episode(run.from_position),
        through=names.last_episode(run.to_position),
        scheduled_at=None if scheduled is None else instant_text(scheduled),
        again=run.replay,
        set_aside=[SetAside(key, kept[key]) for key in names.episodes(kept)],
    )
    return [line]


class FollowedEvent:
    """An event whose facts follow it, until all have arrived."""

    def __init__(
        self, event: Recorded, payload: DeltaApplied | SummaryRecorded, names: Names, at: str
    ) -> None:
        self.event = event
        self._payload = payload
        self._names = names
        self._at = at
        self._then: list[AssertLine | RetractLine] = []
        self._left = list(payload.deltas) if isinstance(payload, DeltaApplied) else []
        self._held: set[str] = set()
        self._readable = names.sieve.place(payload.scope, payload.garden_id)

    def absorb(self, lines: list[AnyLine]) -> None:
        """Take the lines of facts that the event caused."""
        for line in lines:
            assert isinstance(line, AssertLine | RetractLine)
            self._then.append(line)
            if isinstance(line, AssertLine) and line.key is not None:
                self._held.add(line.key)

    def lines(self) -> list[AnyLine]:
        """The lines so far: one, or several if it is long."""
        then, self._then = self._then, []
        if not self._readable:
            return []
        if isinstance(self._payload, SummaryRecorded):
            line = self._summary(self._payload, then)
            hidden = self._payload.fact_ids and not line.facts and not self._payload.removed
            return [] if hidden else [line]
        made: list[AnyLine] = []
        part: list[AssertLine | RetractLine] = []
        size = 0
        for item in then:
            if size > LINE_CHARACTERS:
                made += self._deltas(self._payload, part)
                part, size = [], 0
            part.append(item)
            if isinstance(item, AssertLine):
                size += len(str(item.value.v))
        return made + self._deltas(self._payload, part)

    def _deltas(self, payload: DeltaApplied, then: list[AssertLine | RetractLine]) -> list[AnyLine]:
        """The deltas whose facts are out with these; a fact that no delta names goes alone."""
        self._held -= {item.key for item in then if isinstance(item, AssertLine)}
        ready = [delta for delta in self._left if self._is_ready(delta)]
        self._left = [delta for delta in self._left if not self._is_ready(delta)]
        named = {delta.fact_id for delta in ready}
        alone = [item for item in then if isinstance(item, AssertLine) and item.key not in named]
        if not ready:
            return [*then]
        line = DeltasLine(
            deltas=[self._item(delta) for delta in ready],
            scope=payload.scope,
            garden_id=self._names.garden(payload.garden_id),
            run_id=payload.run_id,
            applied_by=self.event.header.actor,
            then=[_nested(item) for item in then if item not in alone],
            recorded_at=self._at,
        )
        return [*alone, line]

    def _is_ready(self, delta: AppliedDelta) -> bool:
        """Whether its fact went out, and none of its facts belongs to another line. If its fact is
        erased, never."""
        fact = delta.fact_id
        if fact is not None and not self._names.counts(self.event, fact):
            return False
        ended = delta.retracted
        if fact is None and ended and not self._names.counting(self.event, ended):
            return False  # of facts that the caller may not read
        return self._held.isdisjoint({fact, *delta.retracted})

    def _item(self, delta: AppliedDelta) -> DeltaItem:
        return shaped(
            delta,
            DeltaItem,
            kind=delta.delta,
            promotion_ts=instant_text(delta.promotion_us),
            fact=delta.fact_id,
            retracted=self._names.counting(self.event, delta.retracted),
        )

    def _summary(
        self, summary: SummaryRecorded, then: list[AssertLine | RetractLine]
    ) -> SummaryLine:
        modified = summary.modified_us
        return shaped(
            summary,
            SummaryLine,
            facts=self._names.counting(self.event, summary.fact_ids),
            retracted=self._names.counting(self.event, summary.retracted),
            garden_id=self._names.garden(summary.garden_id),
            modified_at=None if modified is None else instant_text(modified),
            recorded_by=self.event.header.actor,
            then=[_nested(item) for item in then],
            recorded_at=self._at,
        )


def _nested(line: AssertLine | RetractLine) -> AssertLine | RetractLine:
    """A line inside another: an event always states new facts."""
    if isinstance(line, AssertLine):
        return replace(line, recorded_at=None, again=False)
    return replace(line, recorded_at=None)
