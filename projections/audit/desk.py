"""Runs audit statements over files made for a caller's rights and a moment; the next statement with
the same reuses them."""

import logging
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from engramlog.projections.archive.archive import Archive
from engramlog.projections.archive.duck import file_errors
from engramlog.projections.arrays import I64
from engramlog.projections.audit.sandbox import (
    FactStates,
    Rights,
    check_statement,
    extract_events,
    extract_standing,
    run_sql,
)
from engramlog.projections.audit.statement_task import StatementLimits, Table
from engramlog.projections.authorization import OPEN_CLASS, Authorization
from engramlog.projections.episodes.shown import Shown, hides
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import hidden_positions, known
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.normalization import SCOPES

_log = logging.getLogger(__name__)


class _Made(Struct, frozen=True):
    """The rights and moment that files were made for."""

    position: int
    rights: Rights
    erasures: int
    hidden: tuple[tuple[str, int], ...]
    kept: bytes


class AuditDesk:
    """Runs audit statements one at a time: each may use all its memory."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._made: _Made | None = None
        self._erasures = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def ask(
        self,
        view: View,
        authorization: Authorization,
        moment: Moment,
        sql: str,
        limits: StatementLimits,
        *,
        chains: bool,
    ) -> Table:
        """Answer one statement over the events up to the moment that the caller may read, with
        their numbers in streams if it sees ``chains``. Raises
        StatementRefused: it is not a statement, is wrong, or uses too much; StorageError: the files
        for it cannot be written."""
        check_statement(sql)
        with self._lock:
            with file_errors("audit statements"):
                events, standing = self._files(view, authorization, moment, chains)
            return run_sql(events, standing, sql, limits, self._started)

    def _started(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._stopped:
            process.kill()

    def stop(self) -> None:
        """End the running statement, and every later one: the node stops."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def note_erased(self) -> None:
        """Stop using files made before an erasure."""
        self._erasures += 1

    def discard(self) -> None:
        """Remove the files; the next use makes them again. Raises OSError."""
        with self._lock:
            self._made = None
            if self._folder is not None:
                with suppress(FileNotFoundError):
                    shutil.rmtree(self._folder)
                self._folder = None

    def close(self) -> None:
        """Remove the files; what cannot be removed now goes at the next start. Idempotent."""
        with suppress(OSError):
            self.discard()

    def _files(
        self, view: View, authorization: Authorization, moment: Moment, chains: bool
    ) -> tuple[Path, Path]:
        if self._folder is None:
            folder = self._archive.extracts_folder
            folder.mkdir(mode=0o700, exist_ok=True)
            self._folder = folder
        events, standing = self._folder / "events.parquet", self._folder / "standing.parquet"
        withheld = withheld_positions(view, authorization)
        wanted = _Made(
            moment.position,
            _rights_of(view, authorization, chains),
            self._erasures,
            tuple(sorted(view.hiding.names.items())),
            withheld.tobytes(),
        )
        if self._made != wanted:
            self._made = None
            with self._archive.reading(moment.position) as sources:
                sees = _visibility_of(view, authorization)
                extract_events(events, sources, moment.position, wanted.rights, withheld, sees)
            extract_standing(standing, fact_states_at(view, authorization, moment))
            self._made = wanted
        return events, standing


def _rights_of(view: View, authorization: Authorization, chains: bool) -> Rights:
    """The part of the log that a caller may read."""
    gardens = {view.gardens.text(number) for number in range(len(view.gardens))}
    readable = gardens if authorization.every_garden else gardens & authorization.gardens
    everything = authorization.scopes == frozenset(SCOPES) and readable == gardens
    return Rights(
        scopes=tuple(sorted(authorization.scopes)),
        gardens=tuple(sorted(readable)),
        hidden=tuple(sorted(hidden_positions(view, authorization))),
        # To all but admins, even the absence of these events would reveal gardens.
        node=everything and authorization.may("admin"),
        memories=authorization.ceiling >= OPEN_CLASS,
        chains=chains,
    )


def _visibility_of(
    view: View, authorization: Authorization
) -> Callable[[str, dict[str, Any]], bool]:
    """A test: whether the caller sees the content of a memory's event."""
    shown = Shown(view, authorization)

    def sees(kind: str, said: dict[str, Any]) -> bool:
        if kind == "episode_recorded":
            where = (said["user"], said["agent"], said["session"], said["scope"])
            return not hides(view.hiding, *where, said.get("metadata") or {})
        return shown.rejection(said.get("replaces") or (), said)

    return sees


def withheld_positions(view: View, authorization: Authorization) -> I64:
    """Positions of facts that tombstones or the sanitizer mode hide."""
    hidden = view.hidden()
    slots = np.flatnonzero(np.zeros(view.count, np.bool_) if hidden is None else hidden)
    if authorization.withheld:
        flagged = view.flagged()
        flagged = flagged[(view.flags(flagged) & authorization.withheld) != 0]
        slots = np.unique(np.concatenate([slots, flagged, authorization.withheld_notes(view)]))
    return view.from_position[slots]


def fact_states_at(view: View, authorization: Authorization, moment: Moment) -> FactStates:
    """The state of every readable fact at the moment."""
    slots = known(view, authorization, moment)
    to_position: I64 = view.to_position[slots]
    ended = np.where(to_position <= moment.position, to_position, 0)
    assert moment.position < LIVE
    return FactStates(
        position=view.from_position[slots],
        ended=ended.astype(np.int64),
        confidence=view.confidence(slots, moment),
    )
