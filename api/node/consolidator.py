"""Passes of consolidation rules over a node.

A pass reads episodes behind the rule's watermark. Salience decides which of them count. The pass
makes deltas of these (``projections/episodes/classifying.py``) and submits the deltas together with
the new watermark. So the log shows how far a pass came, even if it stops early.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar
from uuid import uuid4

import msgspec
from msgspec import Struct, field

from engramlog.api.node.node import Node
from engramlog.api.node.own_stream import SYSTEM_ACTOR
from engramlog.eventlog.event import fact_partition
from engramlog.eventlog.kinds import ConsolidationRan, SetAsideEpisode
from engramlog.projections.episodes import reading, reading_deltas, reading_rules
from engramlog.projections.episodes.classifying import CurrentFacts, Emitted, emit, key_of
from engramlog.projections.episodes.delta import Proposal, kind_of_delta, promoted_id
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.matching import match_count
from engramlog.projections.episodes.pattern_search import BoundedSearch, Unsearchable
from engramlog.projections.episodes.reading import Readers
from engramlog.projections.episodes.rule import Rule
from engramlog.projections.episodes.salience import SalienceContext, salience
from engramlog.projections.writing.commands import Done, Refused
from engramlog.projections.writing.memory_commands import ApplyDeltas, Consolidate

CHUNK_EPISODES = 1_000
DRY_RUN_EPISODES_MAX = 10_000

Made = TypeVar("Made")
Trigger = Literal["manual", "every", "cron"]


class RunCounts(Struct, kw_only=True):
    """What a run read and made; ``to_position`` is the watermark afterwards."""

    rule_id: str
    run_id: str
    dry_run: bool = False
    replay: bool = False
    from_position: int
    to_position: int
    episodes: int = 0
    applied: int = 0
    known: int = 0
    rejected: int = 0
    gated: int = 0
    quarantined: list[dict[str, str]] = field(default_factory=list)


class RunReport(RunCounts, kw_only=True):
    """The outcome of a run: counts, the deltas' results, and the episodes set aside. ``raced`` says
    that another run of the rule, or an erasure, was faster and this one stopped. ``more``: a dry
    run left episodes unread.
    """

    proposals: list[Proposal] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    raced: bool = False
    more: bool = False


class Consolidator:
    """Runs rules over a node; one run of a rule at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._turns: dict[str, asyncio.Lock] = {}

    async def run(
        self,
        rule: Rule,
        *,
        trigger: Trigger = "manual",
        asked_by: str | None = None,
        from_position: int | None = None,
        until: int | None = None,
        most: int | None = None,
        scheduled_us: int | None = None,
        run_id: str | None = None,
        keep: bool = False,
    ) -> RunReport:
        """Read everything behind the watermark, a chunk at a time.

        Args:
            rule: what to run.
            trigger: why it runs.
            asked_by: the caller.
            from_position: read again from here. Deltas already applied stay, and so does the
                watermark.
            until: read up to here; by default to the log's head.
            most: read at most so many episodes; ``report.more`` says whether any are left.
            scheduled_us: which fire of a timetable this is.
            run_id: by default a new one.
            keep: whether the report holds proposals and results.
        """
        async with self._turn(rule):
            head = self._node.log.head().position
            until = head if until is None else min(until, head)
            start = await self._start(rule, from_position)
            last_wanted = None
            if most is not None:
                last_wanted = await self._due(rule, start, most)
                until = until if last_wanted is None else min(until, last_wanted)
            base = ConsolidationRan(
                rule_id=rule.id,
                run_id=run_id or uuid4().hex,
                from_position=start,
                to_position=start,
                at_us=self._node.clock.now_us(),
                trigger=trigger,
                asked_by=asked_by,
                scheduled_us=scheduled_us,
                replay=from_position is not None,
            )
            report = _report(base)
            if last_wanted is not None:
                who = readers_of(rule)
                left, _ = await self._ask(reading.pending, who, last_wanted, until=head)
                report.more = left > 0
            after = start
            while True:
                episodes = await self._read(rule, after, until, CHUNK_EPISODES)
                last = len(episodes) < CHUNK_EPISODES
                reached = until if last else episodes[-1].position
                chunk = msgspec.structs.replace(base, from_position=after, to_position=reached)
                if episodes or (scheduled_us is not None and after == start):
                    current = await self._current_facts(rule, episodes)
                    step = await self._step(rule, episodes, chunk, current, report)
                    if not await self._submit([step], report, keep=keep):
                        return report
                after = reached
                if last:
                    return report

    async def fire(self, rule: Rule, every: int) -> RunReport | None:
        """The runs that are due for a rule that fires every so many episodes, a few at a time; None
        if none is due. Each fire reads exactly that many."""
        async with self._turn(rule):
            start = await self._start(rule, None)
            due = await self._due(rule, start, every)
            if due is None:
                return None
        if every > CHUNK_EPISODES:
            return await self.run(rule, trigger="every", until=due)
        async with self._turn(rule):
            start = await self._start(rule, None)
            head = self._node.log.head().position
            episodes = await self._read(rule, start, head, CHUNK_EPISODES // every * every)
            current = await self._current_facts(rule, episodes)
            steps: list[Consolidate] = []
            report: RunReport | None = None
            after, now_us = start, self._node.clock.now_us()
            for first in range(0, len(episodes) - every + 1, every):
                taken = episodes[first : first + every]
                run = ConsolidationRan(
                    rule_id=rule.id,
                    run_id=uuid4().hex,
                    from_position=after,
                    to_position=taken[-1].position,
                    at_us=now_us,
                    trigger="every",
                )
                report = report or _report(run)
                steps.append(await self._step(rule, taken, run, current, report))
                after = taken[-1].position
            if report is None:
                return None
            await self._submit(steps, report, keep=True)
            return report

    async def dry_run(self, rule: Rule, *, from_position: int | None = None) -> RunReport:
        """What a run over up to ``DRY_RUN_EPISODES_MAX`` episodes would emit. Writes nothing."""
        head = self._node.log.head().position
        start = await self._start(rule, from_position)
        episodes = await self._read(rule, start, head, DRY_RUN_EPISODES_MAX + 1)
        more = len(episodes) > DRY_RUN_EPISODES_MAX
        episodes = episodes[:DRY_RUN_EPISODES_MAX]
        run = ConsolidationRan(
            rule_id=rule.id,
            run_id="",
            from_position=start,
            to_position=episodes[-1].position if more else head,
            at_us=self._node.clock.now_us(),
            replay=from_position is not None,
        )
        report = _report(run)
        current = await self._current_facts(rule, episodes)
        step = await self._step(rule, episodes, run, current, report)
        report.dry_run, report.more = True, more
        _count(report, step.run)
        report.proposals = list(step.apply.proposals)
        return report

    def _turn(self, rule: Rule) -> asyncio.Lock:
        return self._turns.setdefault(rule.id, asyncio.Lock())

    async def _ask(self, question: Callable[..., Made], *about: object, **more: object) -> Made:
        return await asyncio.to_thread(self._node.reader.ask, question, *about, **more)

    async def _start(self, rule: Rule, from_position: int | None) -> int:
        if from_position is not None:
            return max(0, from_position - 1)
        return await self._ask(reading_rules.watermark, rule.id)

    async def _due(self, rule: Rule, after: int, every: int) -> int | None:
        return await self._ask(reading.nth_behind, readers_of(rule), after, every)

    async def _read(self, rule: Rule, after: int, until: int, limit: int) -> list[Episode]:
        who = readers_of(rule)
        return await self._ask(reading.behind, who, after=after, until=until, limit=limit)

    async def _current_facts(self, rule: Rule, episodes: Sequence[Episode]) -> CurrentFacts:
        """The current facts under the keys of these episodes. Rules with matchers need none."""
        found = () if rule.matchers else (key_of(rule, each) for each in episodes)
        keys = [key for key in found if key is not None]
        return CurrentFacts(
            await self._ask(reading_deltas.live_facts_of_keys, keys) if keys else {}
        )

    async def _step(
        self,
        rule: Rule,
        episodes: Sequence[Episode],
        run: ConsolidationRan,
        current: CurrentFacts,
        report: RunReport,
    ) -> Consolidate:
        """The writer's command for a run's episodes; ``report`` collects those set aside."""
        fresh = await self._unpromoted(rule, episodes) if run.replay else list(episodes)

        def emitted_of(search: BoundedSearch) -> tuple[list[Episode], Emitted]:
            admitted, scores = self._admitted(rule, fresh, run.at_us, search)
            return admitted, emit(rule, admitted, current, scores, search)

        admitted, emitted = await _searching(emitted_of)
        report.quarantined += [
            {"id": episode.id, "key": episode.key, "reason": reason}
            for episode, reason in emitted.set_aside
        ]
        run = msgspec.structs.replace(
            run,
            episodes=len(episodes),
            known=len(episodes) - len(fresh),
            gated=len(fresh) - len(admitted),
            quarantined=[
                SetAsideEpisode(episode.key, reason) for episode, reason in emitted.set_aside
            ],
        )
        apply = ApplyDeltas(
            scope=rule.scope,
            garden_id=rule.garden_id,
            proposals=tuple(emitted.proposals),
            run_id=run.run_id or None,
            strict=False,
            single_valued=tuple(rule.single_valued),
        )
        keys = tuple(episode.key for episode in admitted)
        return Consolidate(apply=apply, run=run, expected=run.from_position, episodes=keys)

    async def _unpromoted(self, rule: Rule, episodes: Sequence[Episode]) -> list[Episode]:
        """The episodes that this version of the rule has not yet promoted."""
        version = rule.version
        ids = [promoted_id(rule.id, version, each.place, [each.name]) for each in episodes]
        known = await self._ask(reading_deltas.known_deltas, ids)
        return [each for each, made in zip(episodes, ids, strict=True) if made not in known]

    def _admitted(
        self, rule: Rule, episodes: list[Episode], now_us: int, search: BoundedSearch
    ) -> tuple[list[Episode], dict[str, float]]:
        """The episodes that pass the salience gate, and their scores if the rule uses them."""
        gate = rule.salience
        uses_salience = any(each.field == "salience" for m in rule.matchers for each in m.when)
        if gate.threshold <= 0.0 and not uses_salience:
            return episodes, {}
        scores: dict[str, float] = {}
        for episode in episodes:
            context = SalienceContext(
                now_us=now_us,
                last_access_us=episode.at_us
                if episode.last_access_us is None
                else episode.last_access_us,
                access_count=episode.access_count,
                rule_match_count=_match_count(rule, episode, search),
                weights=gate.weights,
                tau_seconds=gate.tau_seconds,
                frequency=gate.frequency,
            )
            scores[episode.key] = salience(context)
        return [each for each in episodes if scores[each.key] >= gate.threshold], scores

    async def _submit(self, steps: Sequence[Consolidate], report: RunReport, *, keep: bool) -> bool:
        """Write steps as one command. False if another run or an erasure was faster."""
        future = self._node.writer.submit(steps, actor=SYSTEM_ACTOR, atomic=True)
        answer = await asyncio.wrap_future(future)
        for outcome in answer.outcomes:
            if isinstance(outcome, Refused):
                report.raced = outcome.code == "consolidation_raced"
                if not report.raced:
                    raise ConsolidationFailed(outcome)
                return False
        for step, outcome in zip(steps, answer.outcomes, strict=True):
            assert isinstance(outcome, Done)
            _count(report, outcome.detail["run"])
            if keep:
                report.proposals += step.apply.proposals
                report.results += outcome.detail["results"]
        return True


class ConsolidationFailed(Exception):
    """The writer refused a run, and not because another run was faster (a deleted garden, for
    instance)."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


async def _searching(work: Callable[[BoundedSearch], Made]) -> Made:
    """The result of work that searches texts, in a thread of its own; cancelling ends a search."""
    search = BoundedSearch()
    try:
        return await asyncio.to_thread(work, search)
    finally:
        search.close()


def _match_count(rule: Rule, episode: Episode, search: BoundedSearch) -> int:
    """0 for an unsearchable episode: ``emit`` sets it aside if its salience admits it."""
    try:
        return match_count(rule.matchers, episode, search)
    except Unsearchable:
        return 0


def readers_of(rule: Rule) -> Readers:
    """Whose episodes a rule reads."""
    partition = fact_partition(rule.scope, rule.garden_id)
    return Readers(partition, rule.user, rule.agent, rule.peers)


def delta_kinds(proposals: Sequence[Proposal]) -> dict[str, int]:
    counts: dict[str, int] = {"add": 0, "update": 0, "delete": 0, "noop": 0}
    for proposal in proposals:
        counts[kind_of_delta(proposal.delta)] += 1
    return counts


def _report(run: ConsolidationRan) -> RunReport:
    return RunReport(
        rule_id=run.rule_id,
        run_id=run.run_id,
        from_position=run.from_position,
        to_position=run.from_position,
        replay=run.replay,
    )


def _count(report: RunReport, run: ConsolidationRan) -> None:
    report.to_position = run.to_position
    report.episodes += run.episodes
    report.applied += run.applied
    report.known += run.known
    report.rejected += run.rejected
    report.gated += run.gated
