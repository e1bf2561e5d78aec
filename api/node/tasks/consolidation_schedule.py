"""The scheduler of consolidation rules. It keeps no state: it finds the due rules from the log each
time.

Rules that count episodes run after a write with an episode, timed rules at their instant. Rules
that fell due while the node was down run at its start.
"""

import asyncio
import logging
from collections.abc import Sequence

from engramlog.api.node.consolidator import ConsolidationFailed, Consolidator
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ConsolidationRuleSet, EpisodeRecorded
from engramlog.projections.episodes import reading_rules
from engramlog.projections.episodes.cadence import due_fire, next_fire, run_name
from engramlog.projections.episodes.rule import Rule, RuleError, parse_rule
from engramlog.projections.writing.submission import WriterBusy, WriterClosed, WriterDegraded

SKIP_GRACE_US = 60_000_000
"""A run that starts later than this counts as missed."""
SLEEP_SECONDS_MAX = 60.0
"""Clocks can be set, so no sleep is longer."""
RETRY_SECONDS = 5.0
STOP_SECONDS = 10.0
"""For the due rules at a stop. Of costly patterns each episode may take a second: a run that is cut
reads its episodes again after the next start."""

_WANTED = frozenset({EpisodeRecorded, ConsolidationRuleSet})
_log = logging.getLogger(__name__)


class ConsolidationScheduler(LoopTask):
    """See the module; ``tick`` runs the rules that are due now."""

    def __init__(self, node: Node, consolidator: Consolidator, *, enabled: bool = True) -> None:
        super().__init__("consolidation", node.reader)
        self._node = node
        self._consolidator = consolidator
        self._enabled = enabled
        self._turn = asyncio.Lock()
        self._seen: dict[tuple[str, int], int] = {}
        self._stopping = False

    @property
    def wanted(self) -> bool:
        return self._enabled

    def committed(self, events: Sequence[Recorded]) -> None:
        if not _WANTED.isdisjoint([type(event.payload) for event in events]):
            self.wake()

    async def stop(self) -> None:
        """Run the due rules, as far as ``STOP_SECONDS`` go, then stop."""
        if self._task is not None:
            self._stopping = True
            self._woken.set()
            await asyncio.wait([self._task], timeout=STOP_SECONDS)
        await super().stop()

    async def run(self) -> None:
        while True:
            stopping = self._stopping
            pause = RETRY_SECONDS
            try:
                pause = await self.tick()
                self.error = None
            except (WriterBusy, WriterDegraded) as fault:
                _log.warning("consolidation waits: %s", fault)
                self.error = str(fault)
            except WriterClosed:
                return
            except Exception as fault:
                self.failed(fault)
            if stopping:
                return
            await self.pause(pause)

    async def tick(self) -> float:
        """Run the due rules. Returns the seconds until a timed rule may be due."""
        async with self._turn:
            pause = SLEEP_SECONDS_MAX
            if not self._node.leads:  # rules run on the leading node
                return pause
            for rule, set_at in await asyncio.to_thread(self._rules):
                try:
                    pause = min(pause, await self._attend(rule, set_at))
                except ConsolidationFailed as fault:
                    _log.warning("rule %s cannot write: %s", rule.id, fault)
            return pause

    def _rules(self) -> list[tuple[Rule, int]]:
        reader = self._node.reader
        rows = reader.ask(reading_rules.rules_at, reader.image.position)
        rules: list[tuple[Rule, int]] = []
        for rule_id, document, _, set_at in rows:
            try:
                rule = parse_rule(document)
            except RuleError as fault:  # a time zone that this machine does not know
                _log.warning("rule %s cannot run here: %s", rule_id, fault)
                continue
            if rule.enabled:
                rules.append((rule, set_at))
        return rules

    async def _attend(self, rule: Rule, set_at: int) -> float:
        cadence = rule.timetable
        if cadence.every is not None:
            while await self._consolidator.fire(rule, cadence.every) is not None:
                pass
            return SLEEP_SECONDS_MAX
        now_us = self._node.clock.now_us()
        last = await asyncio.to_thread(
            self._node.reader.ask, reading_rules.last_fire, rule.id, now_us
        )
        due = due_fire(cadence, max(self._set_at(rule, set_at, now_us), last or 0), now_us)
        if due is not None and (cadence.missed != "skip" or now_us - due <= SKIP_GRACE_US):
            await self._consolidator.run(
                rule,
                trigger="cron",
                scheduled_us=due,
                run_id=run_name(rule.id, rule.version, str(due)),
            )
        return max(0.05, (next_fire(cadence, now_us) - now_us) / 1e6)

    def _set_at(self, rule: Rule, set_at: int, now_us: int) -> int:
        """When a rule was set. If the clock was set back since, the log's time is ahead of it until
        it catches up: then when it was first seen here."""
        if set_at <= now_us:
            return set_at
        return min(now_us, self._seen.setdefault((rule.id, set_at), now_us))
