"""The congress stream split among several origins, which replay each other now and then.

A plain set computes the expected result from the lines alone.
"""

import gzip
import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from engramlog.eventlog.kinds import SetValuedDeclared, Value
from engramlog.projections.writing.commands import AssertFact, Command, Done, RetractFact
from engramlog.replay.federation.pulling import PeerUnreachable
from tests.worlds.federation.answers import Answers, answers, level
from tests.worlds.federation.network import Link, Member
from tests.worlds.federation.schedules import settle
from tests.worlds.histories import asserted

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "congress" / "events.jsonl.gz"
SCOPES = frozenset({"company", "public"})
BATCH = 250
SECOND_US = 1_000_000
QUESTIONS = (
    "offices in NV", "Republican senator of New York", "birthday of 1942",
    "Rayburn House Office Building", "stigmem://congress.example/legislator/a000022",
)  # fmt: skip

Key = tuple[str, str, str, str | None, str | None]
"""(s, r, o, vf, vt): the identity of a fact in this data."""


def lines(count: int, one_in: int) -> Iterator[dict[str, Any]]:
    """The first ``count`` changes, in order, of one legislator in ``one_in``."""
    with gzip.open(DATA, "rt") as file:
        for line in map(json.loads, islice(file, count)):
            if crc32(line["s"].encode()) % one_in == 0:
                yield line


def key_of(line: dict[str, Any]) -> Key:
    return line["s"], line["r"], line["o"], line["vf"], line["vt"]


class Split:
    """The stream stated by several origins, each line by one of them."""

    def __init__(self, folder: Path, seed: int, origins: int) -> None:
        self.chance = random.Random(seed)
        self.members = [
            Member(folder, f"o{n}", self.chance.randrange(-30, 30) * SECOND_US)
            for n in range(origins)
        ]
        self.live: set[Key] = set()
        self.sources: set[str] = set()
        self._skews = [member.clock.now_us() for member in self.members]
        self._skews = [skew - self._skews[0] for skew in self._skews]
        self._waiting: list[list[tuple[Key | None, Command]]] = [[] for _ in self.members]
        self._asserting: set[Key] = set()
        self._facts: dict[Key, str] = {}
        for member in self.members:
            member.submit([SetValuedDeclared(relations=["congress:*"])])
            for other in self.members:
                if member is not other:
                    member.meet(other)

    def tell(self, count: int, one_in: int = 1) -> None:
        """State the first ``count`` changes, of one legislator in ``one_in``, then let all replay
        all."""
        for number, line in enumerate(lines(count, one_in), 1):
            if number % (BATCH // one_in * len(self.members)) == 0:
                self._flush()
                self._hear()
            self._one(line)
        self._flush()
        settle(self.members)

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _one(self, line: dict[str, Any]) -> None:
        now_us = line["t"] * SECOND_US
        if now_us + self._skews[0] > self.members[0].clock.now_us():
            self._flush()
            for member, skew in zip(self.members, self._skews, strict=True):
                member.clock.set(max(member.clock.now_us(), now_us + skew))
        key = key_of(line)
        if line["op"] == "assert":
            who = self.chance.randrange(len(self.members))
            fact = _fact(line)
            self.sources.add(fact.fact.source)
            self._waiting[who].append((key, fact))
            self._asserting.add(key)
            self.live.add(key)
            return
        if key in self._asserting:
            self._flush()
        name = self._facts.pop(key)
        holders = [
            n for n, member in enumerate(self.members)
            if name in member.node.reader.image.facts.slot_of
        ]  # fmt: skip
        who = self.chance.choice(holders)
        self._waiting[who].append((None, RetractFact(fact_id=name)))
        self.live.discard(key)

    def _flush(self) -> None:
        for who, member in enumerate(self.members):
            waiting, self._waiting[who] = self._waiting[who], []
            if not waiting:
                continue
            outcomes = member.submit([intent for _, intent in waiting]).outcomes
            for (key, _), outcome in zip(waiting, outcomes, strict=True):
                assert isinstance(outcome, Done), outcome
                if key is not None:
                    assert outcome.fact_id is not None
                    self._facts[key] = outcome.fact_id
        self._asserting.clear()

    def _hear(self) -> None:
        """One member replays another, over a link that may be cut."""
        one, other = self.chance.sample(self.members, 2)
        try:
            one.pull(Link(one, other, self.chance, steps=(50, 400)), pages_max=40)
        except PeerUnreachable:
            return

    # -- the outcome ----------------------------------------------------------------

    def held(self, member: Member) -> set[Key]:
        """The live facts of a node, in the form of the data."""
        reader = member.node.reader
        view = reader.pin()
        standing = (view.to_position > view.position) & (view.base > 0)
        rows = reader.rows(view.from_position[standing].tolist())
        return {
            (
                row.entity.removeprefix("stigmem://congress.example/"),
                row.relation.removeprefix("congress:"),
                row.value_v,
                row.valid_from and row.valid_from[:10],
                row.valid_until and row.valid_until[:10],
            )
            for row in rows
            if row.relation.startswith("congress:")
        }

    def wanted(self) -> set[Key]:
        """The live facts by the lines alone; entities are stored in lower case."""
        return {(s.lower(), *rest) for s, *rest in self.live}  # type: ignore[misc]

    def answers(self) -> list[Answers]:
        """All answers of every node, after making node-local data equal."""
        at_us = max(member.clock.now_us() for member in self.members) + SECOND_US
        level(self.members, sorted(self.sources), at_us)
        return [answers(member, QUESTIONS, at_us) for member in self.members]


def _fact(line: dict[str, Any]) -> AssertFact:
    start, end = line["vf"], line["vt"]
    return asserted(
        entity=f"stigmem://congress.example/{line['s']}".lower(),
        relation=f"congress:{line['r']}",
        value=Value("string", line["o"]),
        source=f"stigmem://congress.example/revision/{line['commit']}",
        scope="company" if ord(line["s"][-1]) % 2 else "public",
        valid_from=start and f"{start}T00:00:00Z",
        valid_until=end and f"{end}T00:00:00Z",
    )
