"""The task that follows a folder of Markdown summaries while the node serves.

At the start it reads the changes made while the node was down. Each file written, changed or
deleted becomes a ``summary_recorded`` event; the task only reads the folder.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # takes trio's events

from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask
from engramlog.api.settings import Settings
from engramlog.eventlog.event import fact_partition
from engramlog.projections.memories.summary_naming import FOLDER, TIERS, name_of_file
from engramlog.projections.summaries.reading import RecordedFile, paragraphs_of, recorded_files
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.memory_commands import RecordSummary
from engramlog.projections.writing.submission import (
    ReplicaReadOnly,
    WriterBusy,
    WriterClosed,
    WriterDegraded,
)

ACTOR = "system:engramlog:summaries"
FILE_BYTES_MAX = 4_194_304
FILES_PER_COMMAND = 20
NOT_NOTES = frozenset({"README.md"})
NO_PERIOD = (
    "ignored: its name says no day, week or quarter, as 2026-06-01.md, 2026-W25.md or 2026-Q2.md do"
)
SETTLE_MS = 300
"""Quiet time before reading a changing file."""
LOOK_MS = 1_000
LOOKS_PER_SCAN = 30
"""Quiet looks before scanning all files again: some file systems report no changes."""
RETRY_SECONDS = 5.0

_log = logging.getLogger(__name__)


class UnusableSummary(Exception):
    """A file that cannot be a summary; the message says why."""


class Summary(Struct, frozen=True):
    """A file's content, time and size."""

    text: str
    state: RecordedFile


class FolderOfNotes(Struct, frozen=True):
    """The summaries of a folder: ``files`` by their recorded names; ``ignored`` Markdown files by
    path, each with the reason."""

    files: dict[str, Path]
    ignored: dict[str, str]


class SummaryFolder(LoopTask):
    """See the module. Does nothing without a folder."""

    def __init__(self, node: Node, settings: Settings) -> None:
        super().__init__("summaries")
        self._node = node
        self._settings = settings
        self._root = Path(settings.summaries_dir).resolve() if settings.summaries_dir else None
        self._owner = settings.summaries_owner
        self._stopping = asyncio.Event()
        self._reported: dict[str, str] = {}

    @property
    def wanted(self) -> bool:
        return self._root is not None

    async def stop(self) -> None:
        """Stop after the files in progress."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def run(self) -> None:
        root = self._root
        assert root is not None
        while not self._stopping.is_set():
            try:
                await self._take(root, ())
                self.error = None
                await self._watch(root)
            except WriterClosed:
                raise
            except Exception as fault:
                self.error = f"the folder of summaries cannot be followed: {fault}"
                self._warn("", self.error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), RETRY_SECONDS)

    async def _watch(self, root: Path) -> None:
        quiet = LOOKS_PER_SCAN - 1  # finds changes from before the watch at once
        async for changes in awatch(
            root,
            watch_filter=None,
            debounce=SETTLE_MS,
            stop_event=self._stopping,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            if not root.is_dir():
                raise FileNotFoundError(f"{root} is gone")
            quiet += 1
            if changes or quiet >= LOOKS_PER_SCAN:
                quiet = 0
                await self._take(root, {path for _, path in changes})

    async def _take(self, root: Path, changed: Collection[str]) -> None:
        """Record the differences from the log; reads ``changed`` files in any case."""
        try:
            await asyncio.to_thread(self._record, root, changed)
            self._reported.pop("", None)
        except (WriterBusy, WriterDegraded, ReplicaReadOnly) as fault:
            raise OSError(f"writes are not possible: {fault}") from fault

    def _record(self, root: Path, changed: Collection[str]) -> None:
        partition = fact_partition(self._settings.summaries_scope, None)
        known = self._node.reader.ask(recorded_files, partition, self._owner)
        folder = summary_files(root)
        present = folder.files
        for name, why in folder.ignored.items():
            self._warn(name, why)
        commands: list[RecordSummary] = []
        for name, path in present.items():
            if str(path) in changed or known.get(name, RecordedFile(None, None)) != state_of(path):
                commands += self._command(name, path)
        commands += [self._recording(name, None) for name in sorted(known.keys() - present.keys())]
        for start in range(0, len(commands), FILES_PER_COMMAND):
            if self._stopping.is_set():
                return
            some = commands[start : start + FILES_PER_COMMAND]
            outcomes = self._node.write(*some, actor=ACTOR)
            for command, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Refused):
                    self._warn(command.name, outcome.message)

    def _command(self, name: str, path: Path) -> list[RecordSummary]:
        try:
            read = read_summary(path, self._settings.value_bytes_max)
        except FileNotFoundError:
            return [self._recording(name, None)]
        except (OSError, UnusableSummary) as fault:
            self._warn(name, str(fault))
            return []
        self._reported.pop(name, None)
        return [self._recording(name, read)]

    def _recording(self, name: str, read: Summary | None) -> RecordSummary:
        return RecordSummary(
            name=name,
            text=None if read is None else read.text,
            owner=self._owner,
            scope=self._settings.summaries_scope,
            modified_us=None if read is None else read.state.modified_us,
            size=None if read is None else read.state.size,
        )

    def _warn(self, name: str, why: str) -> None:
        """Warn, once for each reason."""
        if self._reported.get(name) != why:
            self._reported[name] = why
            _log.warning("summary %s: %s", name or self._root, why)


def summary_files(root: Path) -> FolderOfNotes:
    """The Markdown files of a folder, of its tiers' folders, and of the same under
    ``consolidation``. Ignores links. Raises OSError: the folder does not exist or is not
    readable."""
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is not a folder")
    found = FolderOfNotes({}, {})
    for above in (root / FOLDER, root):
        if above != root and above.is_symlink():
            continue
        for folder in (*(above / tier for tier in TIERS), above):
            for path in _files(folder):
                _sort(root, path, found)
    return found


def _sort(root: Path, path: Path, found: FolderOfNotes) -> None:
    given = path.relative_to(root).as_posix()
    if path.suffix.lower() != ".md" or path.name in NOT_NOTES:
        return
    name = name_of_file(given)
    if name is None:
        found.ignored[given] = NO_PERIOD
    elif name in found.files:
        other = found.files[name].relative_to(root).as_posix()
        found.ignored[given] = f"ignored: {other} is of the same period"
    else:
        found.files[name] = path


def _files(folder: Path) -> Iterable[Path]:
    if folder.is_symlink():
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def state_of(path: Path) -> RecordedFile | None:
    """Time and size of a file; None if it does not exist."""
    try:
        status = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return RecordedFile(status.st_mtime_ns // 1_000, status.st_size)


def read_summary(path: Path, value_bytes_max: int) -> Summary:
    """A file's text, with its time and size at the reading. Raises OSError: the file is not
    readable; UnusableSummary: too long, or no text in UTF-8."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UnusableSummary(f"the file exceeds {FILE_BYTES_MAX} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise UnusableSummary(f"the file is not UTF-8: {fault}") from fault
    if "\0" in text:
        raise UnusableSummary("the file holds the NUL character")
    if any(len(each.encode()) > value_bytes_max for each in paragraphs_of(text)):
        raise UnusableSummary(f"a paragraph exceeds {value_bytes_max} bytes")
    return Summary(text, RecordedFile(status.st_mtime_ns // 1_000, status.st_size))
