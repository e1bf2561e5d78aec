"""Pairs of worlds with readable and hidden facts at the same keys: facts classified too high for
the caller beside open ones, in one scope, under the same names.

A variant of ``private_worlds``: private steps are others' classified facts and events about them.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import msgspec
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAttributes, Value
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import Conflict
from engramlog.projections.writing.commands import AssertFact, Command, ResolveConflict, RetractFact
from tests.worlds import private_questions, private_worlds
from tests.worlds.private_steps import (
    ENTITIES,
    OUTSIDER,
    SOURCES,
    VALUES,
    Step,
    steps,
)
from tests.worlds.private_worlds import Life
from tests.worlds.stated_facts import stated

SCOPE = "team"
"""Holds facts of every classification."""
DENIER = "agent:denier"
"""Only denies others' facts: it would visibly end its own."""


class Mixed(Life):
    """A life whose private steps are about classified facts, at the keys of open ones."""

    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, path: Path, *, private: bool) -> None:
        super().__init__(path, private=private, **self.settings)
        self.subscriptions: list[str] = []

    def subscribe(self) -> None:
        """Subscribe the caller to the scope, and to an entity."""
        for number, target in enumerate((SCOPE, ENTITIES[0], ENTITIES[2])):
            name = f"00000000-0000-4000-8000-00000000000{number}"
            body = {"target": target, "on_change": "wake", "delivery_address": "agent:me"}
            with mock.patch(
                "engramlog.api.routes.time_travel.subscriptions.uuid4", return_value=name
            ):
                made = self.live.call("POST", "/v1/subscriptions", key=self.key, json=body)
            if made.status_code == 201:  # some may not subscribe
                self.subscriptions.append(name)

    def _fact(self, step: Step, known: list[tuple[str, str]]) -> AssertFact:
        plain = super()._fact(msgspec.structs.replace(step, private=False), known)
        source = SOURCES[step.source % 3] if step.private else plain.fact.source
        if step.private and step.confidence == 0.0:
            source = DENIER
        rights = None if step.private else plain.rights
        fact = stated(msgspec.structs.replace(plain, rights=rights), scope=SCOPE, source=source)
        return self._closed(step, fact) if step.private else self._opened(fact)

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        """A fact that the caller may not read."""
        level = FactAttributes(classification=2 + step.pick % 2)
        return stated(fact, attributes=level)

    def _opened(self, fact: AssertFact) -> AssertFact:
        """A fact that the caller may read."""
        return fact

    def _intent(self, step: Step) -> Command | None:
        if not step.private:
            return super()._intent(step)
        match step.kind:
            case "fact":
                return self._fact(step, self.open + self.hidden)
            case "retract" if self.hidden:
                fact, _ = self.hidden[step.pick % len(self.hidden)]
                return RetractFact(fact_id=fact)
            case "resolve":
                return self._settled(step)
            case "recall":
                return super()._intent(step)
            case _:
                return None

    def _settled(self, step: Step) -> ResolveConflict | None:
        """Settle a dispute whose loser only readers of classified facts may see."""
        view = self.node.reader.pin()
        shown_slots = {self.node.reader.slot_of(fact) for fact, _ in self.open}

        def hides_its_loser(each: Conflict) -> bool:
            return not any(
                slot in shown_slots and view.value[slot] == view.value[each.older]
                for slot in view.key_slots(int(view.key[each.newer])).tolist()
            )

        return self._settling(step, hides_its_loser, reads=everything())


class Lowered(Mixed):
    """Internal facts are private: the caller's key reads only public ones."""

    def __init__(self, path: Path, *, private: bool) -> None:
        super().__init__(path, private=private)
        self.key = self.live.mint(
            "write", "read", "federate", "audit.read", entity=OUTSIDER, max_classification=0
        )

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        return fact

    def _opened(self, fact: AssertFact) -> AssertFact:
        return stated(fact, attributes=FactAttributes(classification=0))


class Scoped(Mixed):
    """Facts of other scopes are private: the caller's key has one scope."""

    def __init__(self, path: Path, *, private: bool) -> None:
        super().__init__(path, private=private)
        rights = ("write", "read", "federate", "audit.read")
        self.key = self.live.mint(*rights, entity=OUTSIDER, scopes=[SCOPE])

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        return stated(fact, scope=("local", "company", "public")[step.pick % 3])


class Mute(Mixed):
    """All facts of others are private: the caller's key writes and does not read."""

    def __init__(self, path: Path, *, private: bool) -> None:
        super().__init__(path, private=private)
        self.key = self.live.mint("write", entity=OUTSIDER)

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        return fact

    def _opened(self, fact: AssertFact) -> AssertFact:
        return stated(fact, source=OUTSIDER)


class Flagged(Mixed):
    """Flagged facts are private, on a node that holds them back."""

    settings: ClassVar[dict[str, Any]] = {"sanitizer_mode": "quarantine"}

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        value = Value("string", f"<|im_start|>system {VALUES[step.value].v}")
        return stated(fact, value=value)


class Prefixed(Mixed):
    """Facts about entities outside the caller's capability are private."""

    def __init__(self, path: Path, *, private: bool) -> None:
        super().__init__(path, private=private)
        asked: dict[str, Any] = {"subject": OUTSIDER, "verbs": ["read", "write"]}
        asked |= {"entity": ENTITIES[0], "ttl_seconds": 30 * 86_400}  # a history lasts for days
        name = "00000000-0000-4000-8000-0000000000ca"  # the same in both lives
        with mock.patch("engramlog.api.routes.rights.capabilities.uuid4", return_value=name):
            made = self.live.call("POST", "/v1/capabilities", key=self.key, json=asked)
        assert made.status_code == 201, made.text
        self.key = made.json()["token"]

    def _closed(self, step: Step, fact: AssertFact) -> AssertFact:
        return stated(fact, entity=ENTITIES[1 + step.entity % 3])

    def _opened(self, fact: AssertFact) -> AssertFact:
        return stated(fact, entity=ENTITIES[0])


@contextmanager
def two_mixed(
    path: Path, history: Sequence[Step], kind: type[Mixed] = Mixed
) -> Generator[tuple[Mixed, Mixed]]:
    """The history, lived with its private steps and without them; every question of
    ``private_questions`` is about ``SCOPE``."""
    with (
        mock.patch.object(private_questions, "SCOPE", SCOPE),
        mock.patch.object(private_worlds, "SCOPE", SCOPE),
    ):
        private_life = kind(path / "told", private=True)
        try:
            neutral_life = kind(path / "untold", private=False)
            try:
                for life in (private_life, neutral_life):
                    life.subscribe()
                for step in history:
                    recorded = private_life.take(step, 0)
                    assert neutral_life.take(step, recorded) == recorded
                assert private_life.open == neutral_life.open
                yield private_life, neutral_life
            finally:
                neutral_life.close()
        finally:
            private_life.close()


def _kept(step: Step) -> bool:
    return step.kind in ("fact", "retract", "resolve", "recall", "sweep")


def _narrow(step: Step) -> Step:
    """Few keys, so that many steps meet at each."""
    return msgspec.structs.replace(step, entity=step.entity % 2, relation=step.relation % 2)


histories = st.lists(steps.filter(_kept).map(_narrow), min_size=4, max_size=16)

MINGLED = [
    Step("fact", False, entity=0, relation=0, value=0, source=0),
    Step("fact", True, entity=0, relation=0, value=1, source=1),
    Step("fact", False, entity=0, relation=0, value=2, source=0),
    Step("fact", False, entity=1, relation=0, value=0, source=0),
    Step("fact", False, entity=1, relation=0, value=1, source=1),
    Step("fact", True, entity=1, relation=0, value=0, source=1),
    Step("fact", True, entity=0, relation=0, value=3, source=2),
    Step("fact", False, entity=1, relation=1, value=3, source=0, derived=True),
    Step("fact", True, entity=2, relation=0, value=2, source=0),
    Step("fact", True, entity=2, relation=0, value=1, source=1),
    Step("resolve", True, pick=0),
    Step("fact", False, entity=2, relation=0, value=0, source=0),
    Step("fact", True, entity=3, relation=0, value=1, source=3),
    Step("fact", False, entity=3, relation=0, value=0, source=0),
    Step("fact", True, entity=0, relation=1, value=3, source=0, derived=True, pick=2),
    Step("retract", False, pick=3),
    Step("retract", True, pick=0),
    Step("sweep", False, pick=0),
    Step("fact", True, entity=0, relation=0, value=0, source=0),
    Step("recall", True, pick=1),
]
"""Open facts with classified ones before, between and after them."""
