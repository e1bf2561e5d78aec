"""Importing a file: reads lines, batches them, writes them, and accounts for each.

A line is in the log once its batch is acknowledged. With ``stop`` (the default) a batch is all or
nothing, and the import ends at the first refused line: the log has everything before it and nothing
after. With ``skip``, refused lines are reported and left out. ``Translator`` holds the keys and
replaces them before a line is written.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from engramlog.api.client.client import ClientError
from engramlog.api.transfer.known_facts import Known, KnownFacts
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.declarations import GardenLine, TombstoneLine
from engramlog.api.transfer.lines.key_translation import Finder, Translator
from engramlog.api.transfer.lines.line_kinds import AnyLine, ResolveLine, recorded_us
from engramlog.api.transfer.lines.payload_commands import checked_rule
from engramlog.api.transfer.lines.payload_lines import PayloadLine
from engramlog.eventlog.kinds import ConsolidationRuleSet, GardenMemberSet

BATCH_LINES = 1000


class Written(Struct, frozen=True, omit_defaults=True):
    """The outcome of a written line: its fact's id (an episode's key), and its position. ``hash``:
    of an episode; ``facts``: ids of the deltas' facts, by key."""

    status: Literal[
        "asserted", "existing", "retracted", "resolved", "declared", "recorded", "applied"
    ]
    id: str | None = None
    position: int | None = None
    hash: str | None = None
    facts: dict[str, str] = {}


class RefusedLine(Struct, frozen=True):
    """Why a line was refused."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


Result: TypeAlias = Written | RefusedLine | None
"""The outcome of a line of a batch; ``None`` if an earlier line of it was refused."""


class Sink(Finder, Protocol):
    """The destination of lines. Called from one thread at a time, not always the same."""

    acts_on_rules: bool
    """Whether a new rule begins to read at once. Then rules come last, so that they know what other
    nodes' runs have read."""

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        """Write a batch and return once it is durable. ``received_at``: for each line, or the
        clock's. Raises SinkError, ClientError: the whole batch failed (disk, connection,
        shutdown)."""
        ...


class SinkError(Exception):
    """The sink could not take a batch, and acknowledged none of it."""


class ImportStopped(Exception):
    """The import ended early; the message says at which line and how to continue."""


class FileBroken(ImportStopped):
    """The file cannot be read on."""


class Options(Struct, frozen=True):
    """How to import. ``skip``: leading lines that are in the log already."""

    on_error: Literal["stop", "skip"] = "stop"
    skip: int = 0
    known: Known = "write"
    file_clock: bool = False
    batch_lines: int = BATCH_LINES
    value_bytes_max: int = 262_144


class ImportReport(Struct):
    """The result of an import. ``seconds`` is wall time."""

    lines: int = 0
    failed: int = 0
    position: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = {}


class Numbered(Struct, frozen=True):
    """A line with its number in the file from 1 (0: added by a mapping), and its receipt time if
    the file has one. ``nth``: of equal lines that are facts of their own, from 1."""

    number: int
    line: AnyLine
    at: int | None = None
    nth: int = 1


class _Running(Struct, frozen=True):
    """A batch on its way into the log."""

    batch: list[Numbered]
    answer: Future[list[Result]]


class Importer:
    """One import.

    Reads and parses the next batch while one is written. Submits it only after the one before is in
    the log, so that a stop leaves no gap.

    Args: sink: the destination of lines.
        parse: a line's bytes → the line; raises LineError.
        receipt: called for every written or refused line.
        advance: called with the number of lines done, for a progress bar.
        complain: called with a sentence for every line left out.
    """

    def __init__(
        self,
        sink: Sink,
        options: Options,
        parse: Callable[[bytes], AnyLine],
        *,
        receipt: Callable[[int, Written | RefusedLine], None] | None = None,
        advance: Callable[[int], None] = lambda _: None,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sink = sink
        self._options = options
        self._parse = parse
        self._receipt = receipt or _no_receipt
        self._advance = advance
        self._complain = complain
        self._translator = Translator(sink, options.value_bytes_max)
        self._rules: dict[str, Numbered] = {}
        self._known = KnownFacts(sink, self._translator, options.known)
        self._batch: list[Numbered] = []
        self._running: _Running | None = None
        self._pool = ThreadPoolExecutor(1, "import")
        self._done = options.skip
        self.report = ImportReport()

    def run(self, lines: Iterator[bytes], first: Sequence[AnyLine] = ()) -> ImportReport:
        """Import all lines. Raises ImportStopped; KeyboardInterrupt says how to continue."""
        started = time.monotonic()
        waiting = [] if self._options.skip else [Numbered(0, line) for line in first]
        try:
            for number, text in enumerate(lines, 1):
                if number <= self._options.skip:
                    self._leave_out(number, text)
                elif text.strip():
                    self._take(number, text, waiting)
                    waiting = []
            self._drain()
            self._write_rules()
        except ClientError as fault:  # while the destination was asked for an earlier fact
            self._settle_running()
            raise ImportStopped(f"{fault}; {self._so_far()}") from fault
        except FileBroken as fault:
            self._drain()
            raise ImportStopped(f"{fault}; {self._so_far()}") from fault
        except KeyboardInterrupt:
            self._settle_running()
            raise KeyboardInterrupt(f"interrupted; {self._so_far()}") from None
        finally:
            self._pool.shutdown()
            self.report.seconds = time.monotonic() - started
        return self.report

    def _hold_back(self, item: Numbered) -> bool:
        """Keep a rule for the end if it would act on lines still to come. Only its last line
        counts; a rule that the file also removes needs no writing. Raises LineError: it is not a
        valid rule."""
        line = item.line
        rule = line.payload if isinstance(line, PayloadLine) else None
        if not isinstance(rule, ConsolidationRuleSet) or not self._sink.acts_on_rules:
            return False
        checked_rule(rule)
        earlier = self._rules.pop(rule.rule_id, None)
        if earlier is not None:
            self._count(earlier.number, Written("declared"))
        if rule.document is None and earlier is not None:
            self._count(item.number, Written("declared"))
        else:
            self._rules[rule.rule_id] = item
        return True

    def _write_rules(self) -> None:
        """Write the kept rules. Raises ImportStopped after trying all."""
        faults: list[str] = []
        for item in self._rules.values():
            (result,) = self._results([item], partial(self._write, [item]))
            if isinstance(result, Written):
                self._count(item.number, result)
                continue
            refused = result or RefusedLine("was not written")
            self.report.failed += 1
            self._receipt(item.number, refused)
            faults.append(f"line {item.number}: {refused}")
        if faults and self._options.on_error == "stop":
            raise ImportStopped(f"{'; '.join(faults)}; every other line is in the log")
        for fault in faults:
            self._complain(fault)

    def _leave_out(self, number: int, text: bytes) -> None:
        if text.strip():
            try:
                line = self._parse(text)
                self._known.nth(line)
                self._translator.leave_out(line)
                self._hold_back(Numbered(number, line))  # the earlier run did not reach the end
            except LineError:
                return  # an earlier run reported it

    def _take(self, number: int, text: bytes, before: Sequence[Numbered]) -> None:
        self.report.lines += 1
        try:
            line = self._parse(text)
            at = self._time_of(line)
            for item in before:
                self._add(Numbered(item.number, item.line, at))
            self._add(Numbered(number, line, at))
        except LineError as fault:
            self._drain()
            self._refuse(number, RefusedLine(fault.message, fault.field))

    def _time_of(self, line: AnyLine) -> int | None:
        if not self._options.file_clock:
            return None
        at = recorded_us(line)
        if at > time.time() * 1_000_000:
            raise LineError("lies in the future", "recorded_at")
        return at

    def _add(self, item: Numbered) -> None:
        if self._hold_back(item):
            return
        line = item.line
        after = self._batch and _goes_alone(self._batch[-1].line)
        if after or _goes_alone(line) or self._translator.names_pending(line):
            self._drain()
        elif len(self._batch) >= self._options.batch_lines:
            self._launch()
        line = self._translator.translate(line)
        self._translator.announce(line)
        self._batch.append(Numbered(item.number, line, item.at, self._known.nth(line)))

    def _drain(self) -> None:
        """Write the gathered lines, and wait until they are in the log."""
        self._launch()
        self._settle_running()

    def _launch(self) -> None:
        """Submit the gathered lines once the batch before is in the log; do not wait for them."""
        batch, self._batch = self._batch, []
        self._settle_running()
        if batch:
            self._running = _Running(batch, self._pool.submit(self._write, batch))

    def _settle_running(self) -> None:
        """Account for the batch in progress, if any."""
        if self._running is None:
            return
        batch = self._running.batch
        results = self._results(batch, self._running.answer.result)
        self._running = None  # only now: Ctrl-C during the wait leaves it to be accounted for
        bad = next((i for i, result in enumerate(results) if isinstance(result, RefusedLine)), None)
        if bad is not None and self._options.on_error == "stop":
            refused, good = results[bad], batch[:bad]
            if None in results[:bad]:  # held back
                held = [item for item, result in zip(good, results, strict=False) if result is None]
                again = iter(self._results(held, lambda: self._write(held)))
                results = [next(again) if each is None else each for each in results[:bad]]
            if good:
                self._settle(good, results[:bad])
            assert isinstance(refused, RefusedLine)
            self._refuse(batch[bad].number, refused)
        self._settle(batch, results)

    def _results(
        self, batch: Sequence[Numbered], write: Callable[[], list[Result]]
    ) -> list[Result]:
        try:
            return write()
        except (SinkError, ClientError) as fault:
            span = f"lines {batch[0].number} to {batch[-1].number}"
            raise ImportStopped(f"{span}: {fault}; {self._so_far()}") from fault

    def _write(self, batch: Sequence[Numbered]) -> list[Result]:
        live = self._known.live([item.line for item in batch], [item.nth for item in batch])
        fresh = [item for item, found in zip(batch, live, strict=True) if found is None]
        lines = [self._known.stated(item.line, item.nth) for item in fresh]
        times = [item.at for item in fresh if item.at is not None]
        atomic = self._options.on_error == "stop"
        made = iter(self._sink.write(lines, received_at=times or None, atomic=atomic))
        return [next(made) if found is None else Written("existing", found) for found in live]

    def _settle(self, batch: Sequence[Numbered], results: Sequence[Result]) -> None:
        for item, result in zip(batch, results, strict=True):
            if isinstance(result, Written):
                self._translator.learn(item.line, result.id, result.hash, result.facts)
                self._count(item.number, result)
            else:
                self._translator.learn(item.line, None, None, {})
                self._refuse(item.number, result or RefusedLine("was not written"))
        self._done = max(self._done, batch[-1].number)
        self._advance(len(batch))

    def _count(self, number: int, result: Written) -> None:
        report = self.report
        report.counts[result.status] = report.counts.get(result.status, 0) + 1
        report.position = max(report.position, result.position or 0)
        if number:
            self._receipt(number, result)

    def _refuse(self, number: int, refused: RefusedLine) -> None:
        """Report a line left out; with ``stop``, end the import."""
        self.report.failed += 1
        self._receipt(number, refused)
        where = f"line {number}" if number else "a first line of the mapping"
        if self._options.on_error == "stop":
            raise ImportStopped(f"{where}: {refused}; {self._so_far(max(number - 1, 0))}")
        self._complain(f"{where}: {refused}")
        self._done = max(self._done, number)

    def _so_far(self, done: int | None = None) -> str:
        done = self._done if done is None else done
        if not done or not (self._options.skip or self.report.counts):  # or lines without a fact
            return "nothing was imported"
        position = f" (position {self.report.position})" if self.report.position else ""
        return (
            f"lines 1 to {done} are in the log{position} and nothing after them; "
            f"continue with --skip {done}"
        )


def _goes_alone(line: AnyLine) -> bool:
    """Whether a line's command depends on earlier lines."""
    if isinstance(line, PayloadLine):
        return isinstance(line.payload, GardenMemberSet)
    return isinstance(line, ResolveLine | GardenLine | TombstoneLine)


def _no_receipt(_number: int, _result: Written | RefusedLine) -> None:
    """For imports without receipts."""
