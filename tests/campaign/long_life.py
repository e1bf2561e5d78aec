"""A long log: the cost of start, rebuild, verification and as-of reads, and their agreement.

It begins with a node of release 0.1.0 and continues in each earlier version of every kind of event
(``earlier_formats``), then in today's.
"""

import random
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engramlog.api.node.node import Node
from engramlog.eventlog.identifiers import IdentifierSource, id_text
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, FactAsserted, FactRetracted, Value
from engramlog.projections.authorization import everything
from engramlog.projections.cid import with_cid
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.writing.commands import Command, Done, RetractFact, SweepDecay
from engramlog.replay.moment import resolve
from engramlog.replay.verify import verify
from tests.campaign.earlier_formats import (
    VERSIONS,
    append_facts,
    append_golden,
    never_written,
    written_in,
)
from tests.worlds.histories import asserted

TOGETHER = 500
OLDEST = "0.1.0"
EARLIER_SHARE = 0.5
"""The share of the log in earlier versions."""
SECONDS_MAX = {"started": 60, "verified": 300, "rebuilt": 1_500, "looked back": 10}
"""Per million events, and at least this: several times the measured values."""

Result = TypeVar("Result")


class Life:
    """One log, from its first event to its last, with its ``faults``."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        self.faults: list[str] = []
        self._data = folder / "data"
        self._count = count
        self._rng = random.Random(seed)
        self._begun = 0

    def live(self) -> None:
        with tarfile.open(VERSIONS / OLDEST / "node.tar.xz") as archive:
            archive.extractall(self._data, filter="data")
        node = Node.open(self._data)
        try:
            self._timed("written as by earlier releases", lambda: self._write_earlier(node))
        finally:
            node.close()
        node = self._timed("caught up", lambda: Node.open(self._data))
        try:
            self._timed("written", lambda: self._write(node))
        finally:
            node.close()

    def check(self) -> None:
        node = self._timed("started", lambda: Node.open(self._data))
        try:
            self.faults += [f"no event of {each}" for each in never_written(written_in(node.log))]
            report = self._timed("verified", lambda: verify(node.log))
            if report.fault is not None:
                self.faults.append(str(report.fault))
            before = node.reader.digests()
            self._timed("rebuilt", lambda: node.rebuild(from_scratch=True))
            if node.reader.digests() != before:
                self.faults.append("a rebuild makes other tables")
            self._look_back(node)
        finally:
            node.close()

    def _write_earlier(self, node: Node) -> None:
        append_golden(node.log)
        self._begun = node.log.head().position
        version, ids = 1, IdentifierSource(node.log.origin)
        while (written := node.log.head().position) < self._count * EARLIER_SHARE:
            append_facts(node.log, version, [self._fact() for _ in range(TOGETHER)], ids)
            share = written / (self._count * EARLIER_SHARE)
            version = 1 + int(share * (SCHEMA_VERSIONS["fact_asserted"] - 1))

    def _fact(self) -> FactAsserted:
        entity, relation, value = self._said()
        return with_cid(FactAsserted(entity, relation, value, "agent:earlier", "company"))

    def _said(self) -> tuple[str, str, Value]:
        rng = self._rng
        value = Value(type="text", v=f"note {rng.getrandbits(60)}")
        return f"user:u{rng.randrange(self._count // 20 + 1)}", f"rel:r{rng.randrange(50)}", value

    def _write(self, node: Node) -> None:
        facts: list[str] = []
        while node.log.head().position < self._count:
            commands: list[Command] = [
                asserted(*self._said(), scope="company") for _ in range(TOGETHER)
            ]
            done = node.write(*commands)
            facts += [str(each.fact_id) for each in done if isinstance(each, Done)]
            gone = [facts.pop(self._rng.randrange(len(facts))) for _ in range(20)]
            node.write(*(RetractFact(fact_id=each, reason="old") for each in gone))
        node.write(SweepDecay(scopes=("company",), policies=()))

    def _look_back(self, node: Node) -> None:
        """Recall as of some positions, and count live facts of ``_write`` and of ``_write_earlier``
        there: by the image, and by the log alone."""
        head, view = node.log.head().position, node.reader.pin()
        for position in (head // 4, head // 2, head * 3 // 4, head):
            answer = self._timed("looked back", lambda at=position: _recalled(node, at))
            later = [each for each in answer if view.from_position[view.slot_of(each)] > position]
            held = (view.from_position <= position) & (view.to_position > position)
            found = int((held & (view.from_position > self._begun)).sum())
            counted = _counted(node, self._begun, position)
            if not answer or later or found != counted:
                fault = f"{len(answer)} recalled, {len(later)} of later; {found} held, {counted} do"
                self.faults.append(f"at position {position}: {fault}")

    def _timed(self, what: str, work: Callable[[], Result]) -> Result:
        began = time.monotonic()
        result = work()
        seconds = time.monotonic() - began
        print(f"  {what} in {seconds:.1f} s", flush=True)
        most = SECONDS_MAX.get(what, 0) * max(1.0, self._count / 1_000_000)
        if what in SECONDS_MAX and seconds > most:
            self.faults.append(f"{what} in {seconds:.1f} s, over {most:.0f}")
        return result


def run(count: int, seed: int) -> list[str]:
    """Make a log of this many events; returns the faults."""
    folder = Path(tempfile.mkdtemp(prefix="life-"))
    life = Life(folder, count, seed)
    try:
        life.live()
        life.check()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [f"seed {seed}: {fault}" for fault in life.faults]


def _recalled(node: Node, position: int) -> list[str]:
    """Ids of facts that a recall as of a position returns."""
    view, reader = node.reader.pin(), node.reader
    text = f"position:{position}"
    moment = resolve(text, node.log, node.log.head().position, node.clock.now_us())
    request = RecallRequest(query="note of u1", scopes=frozenset({"company"}))
    profile = load_profile("default")
    answer = recall(view, reader.rows, request, profile, everything(), moment)
    return [each.row.id for each in answer.results]


def _counted(node: Node, after: int, position: int) -> int:
    """How many facts after one position were live at another, by the log."""
    held: set[str] = set()
    for event in node.log.iterate(after, position):
        if isinstance(event.payload, FactAsserted):
            held.add(id_text(event.event_id))
        elif isinstance(event.payload, FactRetracted):
            held -= set(event.payload.fact_ids)
    return len(held)
