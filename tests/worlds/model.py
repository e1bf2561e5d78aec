"""The rules of facts, contradictions and decay as plain lists and dicts.

Written from the protocol's sections and DESIGN, not from the projections: slow, obvious, and
checked after every step of a history.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DecayPolicy,
    FactAsserted,
    FactDenied,
    FactRetracted,
    SetValuedDeclared,
)
from engramlog.projections.moment import parse_instant
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    Refused,
    ResolveConflict,
    RetractFact,
    RetractMatching,
    SweepDecay,
)

SPARED = ("stigmem:", "rel:")


class Fact(Struct):
    """One fact of the model; later in the list is newer. ``denied_by``: records."""

    id: str
    asserted: FactAsserted
    recorded_at: int
    confidence: float
    ended: bool = False
    aside: bool = False
    denied_by: list[Fact] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.asserted.entity, self.asserted.relation, self.asserted.scope

    @property
    def value(self) -> tuple[str, str]:
        return self.asserted.value.type, self.asserted.value.v

    @property
    def is_live(self) -> bool:
        """Live: a claim on its key unless it lost a conflict."""
        return not self.ended and self.asserted.confidence > 0

    def expired(self, at_us: int) -> bool:
        until = self.asserted.valid_until
        return until is not None and parse_instant(until) <= at_us

    def overlaps(self, other: Fact) -> bool:
        return not (self._ends_before(other) or other._ends_before(self))

    def _ends_before(self, other: Fact) -> bool:
        until, start = self.asserted.valid_until, other.asserted.valid_from
        return (
            until is not None and start is not None and parse_instant(until) <= parse_instant(start)
        )


class Model:
    """The expected state of a node; ``take`` each command with the node's answer."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.patterns: tuple[str, ...] = ()

    # -- expected events ----------------------------------------------------------------

    def take(self, command: Command, outcome: Done | Refused, at_us: int) -> None:
        """Apply a command, and check the answer against the rules."""
        match command:
            case AssertFact(fact=FactAsserted(confidence=0.0)):
                expected, denied = self._answered(command)
                self._record(outcome)
                assert self._end(expected) == _done(outcome).retracted
                events = [event.payload for event in _done(outcome).events]
                named = [each.fact_ids for each in events if isinstance(each, FactDenied)]
                assert named == ([[fact.id for fact in denied]] if denied else [])
                for fact in denied:
                    fact.denied_by.append(self.facts[-1])
            case AssertFact():
                same = self._same(command)
                assert _done(outcome).created == (same is None)
                assert same is None or _done(outcome).fact_id == same.id
                self._record(outcome)
                stated = next(f for f in self.facts if f.id == _done(outcome).fact_id)
                said = command.fact
                if not said.valid_from and not said.valid_until and not stated.aside:
                    assert _done(outcome).contradicted == self._has_rival(stated, at_us)
            case RetractFact() | RetractMatching():
                expected = self._chosen(command)
                assert isinstance(outcome, Refused) == (len(expected) != 1)
                if len(expected) == 1:
                    assert self._end(expected) == _done(outcome).retracted
            case ResolveConflict():
                self._settle(_done(outcome))
            case SweepDecay():
                for scope in command.scopes:
                    self._sweep(scope, command.policies, at_us)
            case SetValuedDeclared():
                self.patterns = tuple(command.relations)
            case _:
                self._replay(outcome)

    def _replay(self, outcome: Done | Refused) -> None:
        """Apply the events of a command that these rules do not cover."""
        if isinstance(outcome, Refused):
            return
        for event in outcome.events:
            if isinstance(event.payload, FactAsserted):
                self.facts.append(_fact(event, event.payload))
            elif isinstance(event.payload, FactRetracted):
                self._end([f for f in self.facts if f.id in event.payload.fact_ids])

    def _record(self, outcome: Done | Refused) -> None:
        for event in _done(outcome).events:
            if isinstance(event.payload, FactAsserted):
                self.facts.append(_fact(event, event.payload))

    def _end(self, facts: list[Fact]) -> tuple[str, ...]:
        for fact in facts:
            fact.ended, fact.confidence = True, 0.0
        return tuple(fact.id for fact in facts)

    def _of_key(self, entity: str, relation: str, scope: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.key == (entity, relation, scope)]

    def _same(self, command: AssertFact) -> Fact | None:
        """The newest live fact of the key and source, if it has exactly this content."""
        own = [
            fact
            for fact in self._of_key(command.fact.entity, command.fact.relation, command.fact.scope)
            if fact.is_live and fact.asserted.source == command.fact.source
        ]
        if not own:
            return None
        if self.is_denied(own[-1]):
            return None
        said = own[-1].asserted
        wanted = (command.fact.cid, command.fact.valid_from, command.fact.valid_until)
        return own[-1] if (said.cid, said.valid_from, said.valid_until) == wanted else None

    def _answered(self, command: AssertFact) -> tuple[list[Fact], list[Fact]]:
        """The facts that a record of confidence 0 ends, and those it denies."""
        several = self.is_set_valued(command.fact.relation)
        value = (command.fact.value.type, command.fact.value.v)
        live = [
            fact
            for fact in self._of_key(command.fact.entity, command.fact.relation, command.fact.scope)
            if fact.is_live
        ]
        meant = [fact for fact in live if value in {("string", "retracted"), fact.value}]
        own = [fact for fact in live if fact.asserted.source == command.fact.source]
        denied = [fact for fact in meant if fact not in own and not fact.aside]
        return [fact for fact in own if fact in meant or not several], denied

    def _chosen(self, command: RetractFact | RetractMatching) -> list[Fact]:
        if isinstance(command, RetractFact):
            denying = [marker.id for fact in self.facts for marker in fact.denied_by]
            return [
                fact
                for fact in self.facts
                if fact.id == command.fact_id
                and (fact.is_live or (fact.id in denying and not fact.ended))
            ]
        return [
            fact
            for fact in self._of_key(command.entity, command.relation, command.scope)
            if fact.is_live
            and fact.value == (command.value.type, command.value.v)
            and (fact.asserted.valid_from, fact.asserted.valid_until)
            == (command.valid_from, command.valid_until)
            and command.source in (None, fact.asserted.source)
        ]

    def _settle(self, outcome: Done) -> None:
        self._record(outcome)
        resolution = outcome.events[-1].payload
        assert isinstance(resolution, ConflictResolved)
        winner = next(fact for fact in self.facts if fact.id == resolution.winner_id)
        losers = [fact for fact in self.facts if fact.id in resolution.loser_ids]
        assert losers
        records = [fact for fact in (winner, *losers) if fact.asserted.confidence == 0]
        for fact in losers:
            assert fact.key == winner.key
            assert fact.is_live or any(self._denies(fact, each) for each in (winner, *losers))
            assert not fact.aside
            fact.aside = True
        if records:  # a denial concerns its two sides only: the source may have restated the value
            return
        left = {fact.value for fact in self.facts if fact.key == winner.key and claims(fact)}
        settled = {fact.value for fact in losers} - {winner.value}
        assert not left & settled, "all facts of a losing value are set aside"

    def _denies(self, marker: Fact, fact: Fact) -> bool:
        """Whether a record of confidence 0 still denies a fact."""
        named = [each for each in self.facts if marker in each.denied_by]
        return not marker.ended and fact.value in {each.value for each in named}

    def _sweep(self, scope: str, policies: tuple[DecayPolicy, ...], at_us: int) -> None:
        for fact in self.facts:
            policy = _policy(policies, fact.asserted.relation, scope)
            if not fact.is_live or fact.asserted.scope != scope or policy is None or spared(fact):
                continue
            age_s = (at_us - fact.recorded_at) / 1e6
            if policy.mode == "retract":
                floor = policy.min_confidence or 0.0
                if (policy.ttl_s is not None and age_s >= policy.ttl_s) or fact.confidence < floor:
                    self._end([fact])
            elif policy.half_life_s is not None:
                base = fact.asserted.confidence
                left = base * 0.5 ** (age_s / policy.half_life_s)
                fact.confidence = min(base, round(max(policy.min_confidence or 0.0, left), 6))

    # -- expected state -----------------------------------------------------------------

    def is_set_valued(self, relation: str) -> bool:
        return any(_covers(pattern, relation) for pattern in (*SPARED_PATTERNS, *self.patterns))

    def contradicted(self, fact: Fact, at_us: int) -> bool:
        return fact.aside or self._has_rival(fact, at_us) or self.is_denied(fact)

    def is_denied(self, fact: Fact) -> bool:
        """Whether another source's denial of a live fact is open: not withdrawn, and the value not
        restated."""
        return claims(fact) and any(
            not marker.ended and not marker.aside and not self._took_back(marker, fact)
            for marker in fact.denied_by
        )

    def _took_back(self, marker: Fact, fact: Fact) -> bool:
        after = self.facts[self.facts.index(marker) + 1 :]
        return any(
            each.key == fact.key
            and each.value == fact.value
            and each.asserted.source == marker.asserted.source
            and each.asserted.confidence > 0
            for each in after
        )

    def rivals(self, fact: Fact, at_us: int) -> list[Fact]:
        """Unexpired claims of other values that are valid at some time together with the fact."""
        if self.is_set_valued(fact.asserted.relation):
            return []
        return [
            other
            for other in self._of_key(*fact.key)
            if claims(other)
            and not other.expired(at_us)
            and other.value != fact.value
            and other.overlaps(fact)
        ]

    def _has_rival(self, fact: Fact, at_us: int) -> bool:
        return not fact.expired(at_us) and bool(self.rivals(fact, at_us))


SPARED_PATTERNS = ("rel:*", "stigmem:*")


def claims(fact: Fact) -> bool:
    return fact.is_live and not fact.aside


def spared(fact: Fact) -> bool:
    """Whether decay exempts a fact: relationships and the node's own records."""
    entity = fact.asserted.entity
    return fact.asserted.relation.startswith(SPARED) or (
        entity.startswith("stigmem:") and not entity.startswith("stigmem://")
    )


def _fact(event: Recorded, asserted: FactAsserted) -> Fact:
    return Fact(fact_id(event), asserted, event.header.recorded_at, asserted.confidence)


def _done(outcome: Done | Refused) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def _covers(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _policy(policies: tuple[DecayPolicy, ...], relation: str, scope: str) -> DecayPolicy | None:
    fitting: list[Any] = [
        policy
        for policy in policies
        if policy.scope in ("*", scope) and _covers(policy.relation, relation)
    ]
    fitting.sort(key=lambda p: (-len(p.relation), p.relation[-1:] == "*", p.scope == "*", p.id))
    return fitting[0] if fitting else None
