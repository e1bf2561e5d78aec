"""Recall tracking: writes the facts and readers of recalls to the log in batches.

Counts and receipts gather in memory. They go to the writer every ``FLUSH_SECONDS`` at most, when
enough of them wait, and at shutdown. A failed flush keeps them for the next. Reads find receipts
here before the log has them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby, islice
from time import monotonic

from engramlog.api.node.tasks.task import LoopTask
from engramlog.eventlog.kinds import RecallAnswered, RecallServed, RecallUse
from engramlog.projections.tables.recalls.access_counts import KEPT_MAX
from engramlog.projections.writing.writer import Writer

FLUSH_SECONDS = 30.0
PENDING_MAX = 20_000
RECEIPTS_FLUSHED_AT = 1_000
RECEIPTS_KEPT_MAX = 50_000
"""Receipts to hold while the log refuses them; past this, the oldest are dropped with a warning."""
RECEIPTS_PER_COMMAND = 200
WITHHELD_SECONDS = 60.0
"""Longer than a recall and an erasure take."""
ACTOR = "system:engramlog:recall"

_log = logging.getLogger(__name__)


class _Uses:
    """How often a fact was recalled, and the last instants."""

    __slots__ = ("count", "instants")

    def __init__(self) -> None:
        self.count = 0
        self.instants: deque[int] = deque(maxlen=KEPT_MAX)


class RecallTracker(LoopTask):
    """Gathers uses and receipts, and writes them. Used from the event loop alone."""

    def __init__(self, writer: Writer, flush_seconds: float = FLUSH_SECONDS) -> None:
        super().__init__("recall_tracking")
        self._writer = writer
        self._flush_seconds = flush_seconds
        self._uses: dict[str, _Uses] = {}
        self._receipts: dict[str, RecallAnswered] = {}
        self._withheld: dict[Callable[[RecallAnswered], bool], float] = {}
        self._flushing = asyncio.Lock()
        self._flushes: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Facts with uses that are not in the log yet."""
        return len(self._uses)

    @property
    def waiting(self) -> int:
        """Receipts that are not in the log yet."""
        return len(self._receipts)

    def note(self, fact_ids: Iterable[str], at_us: int) -> None:
        """Count a use of each fact at ``at_us`` (microseconds); replicas count none."""
        if self._writer.primary is not None:
            return
        held = self._uses
        for fact_id in fact_ids:
            uses = held.get(fact_id)
            if uses is None:
                uses = held[fact_id] = _Uses()
            uses.count += 1
            uses.instants.append(at_us)
        if len(self._uses) >= PENDING_MAX:
            self._woken.set()

    def withhold(self, tells: Callable[[RecallAnswered], bool]) -> None:
        """Take no receipt that tells what is erased now, for ``WITHHELD_SECONDS``: an erasure finds
        those in the log, and not those of recalls under way."""
        self._end_withholding()
        self._withheld[tells] = monotonic() + WITHHELD_SECONDS

    def _end_withholding(self) -> None:
        now = monotonic()
        for tells in [each for each, end in self._withheld.items() if end < now]:
            del self._withheld[tells]

    def keep(self, receipt: RecallAnswered) -> None:
        """Take a receipt for the log."""
        self._end_withholding()
        if any(tells(receipt) for tells in self._withheld):
            return
        self._receipts[receipt.receipt_id] = receipt
        if len(self._receipts) % RECEIPTS_FLUSHED_AT == 0:
            self._woken.set()

    def receipt(self, receipt_id: str) -> RecallAnswered | None:
        """A receipt that waits; the caller checks who may read it."""
        return self._receipts.get(receipt_id)

    async def stop(self) -> None:
        """Stop the loop and write the backlog."""
        await super().stop()
        await self.flush()

    async def flush(self) -> None:
        """Write the backlog: counts as one event, receipts as one each."""
        await self._alone(self._flush_uses, self._flush_receipts)

    async def flush_receipts(self) -> None:
        """Write the receipts that wait."""
        await self._alone(self._flush_receipts)

    async def _alone(self, *works: Callable[[], Awaitable[None]]) -> None:
        """Do the work after all flushes before it, and even if the caller is cancelled: else the
        log would get again what is under way, or an erasure would miss it."""

        async def work() -> None:
            async with self._flushing:
                for each in works:
                    await each()

        flush = asyncio.create_task(work())
        self._flushes.add(flush)
        flush.add_done_callback(self._flushes.discard)
        await asyncio.shield(flush)

    async def _flush_uses(self) -> None:
        if not self._uses:
            return
        taken, self._uses = self._uses, {}
        uses = [_event_of(fact, held) for fact, held in taken.items()]
        try:
            await asyncio.wrap_future(self._writer.submit([RecallServed(uses=uses)], actor=ACTOR))
        except Exception as fault:
            _log.warning("could not write recall tracking, will retry: %s", fault)
            for fact, later in self._uses.items():
                earlier = taken.setdefault(fact, _Uses())
                earlier.count += later.count
                earlier.instants.extend(later.instants)
            self._uses = taken

    async def _flush_receipts(self) -> None:
        taken = sorted(self._receipts.values(), key=lambda each: each.principal)
        for principal, group in groupby(taken, key=lambda each: each.principal):
            receipts = list(group)
            for first in range(0, len(receipts), RECEIPTS_PER_COMMAND):
                if not await self._written(
                    principal, receipts[first : first + RECEIPTS_PER_COMMAND]
                ):
                    return

    async def _written(self, principal: str, receipts: Sequence[RecallAnswered]) -> bool:
        """Whether the log took the receipts. Each stays readable here until the log has it."""
        try:
            await asyncio.wrap_future(self._writer.submit(receipts, actor=principal))
        except Exception as fault:
            _log.warning("could not write recall receipts, will retry: %s", fault)
            self._give_up_oldest()
            return False
        for each in receipts:
            self._receipts.pop(each.receipt_id, None)
        return True

    def _give_up_oldest(self) -> None:
        excess = len(self._receipts) - RECEIPTS_KEPT_MAX
        if excess > 0:
            _log.warning("dropped %d recall receipts: the log takes none", excess)
            for receipt_id in list(islice(self._receipts, excess)):
                del self._receipts[receipt_id]

    async def run(self) -> None:
        while True:
            await self.pause(self._flush_seconds)
            await self.flush()


def _event_of(fact_id: str, uses: _Uses) -> RecallUse:
    *before, last = sorted(uses.instants)
    return RecallUse(fact_id, uses.count, last, tuple(before))
