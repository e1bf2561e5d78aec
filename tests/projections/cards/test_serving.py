"""When a card is fresh, stale or dropped, and who may get one (seed §20.4.3, §20.4.5)."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import DecayPolicy, KeyIssued, SourceTrustSet, TombstoneSet, Value
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.generator import GROUP_MAX, card_of
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.serving import FORCE_SECONDS_MAX, Cards
from engramlog.projections.cards.source import PastCards, Served
from engramlog.projections.contradictions.conflicts import conflicts
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.cards import CardKey
from engramlog.projections.writing.commands import Done, ResolveConflict, RetractFact, SweepDecay
from tests.worlds.histories import (
    DAY_US,
    ENTITIES,
    HALF_LIFE,
    START_US,
    asserted,
)

ENTITY = ENTITIES[0]
KEY = CardKey(ENTITY, "local")
READER = Authorization("agent:reader", frozenset({"read"}), frozenset({"local"}))


class Desk:
    """A node, its cards, and a clock that the test controls."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.clock = FixedClock(START_US)
        self.node = Node.open(path, clock=self.clock)
        reader = self.node.reader
        self.cards = Cards(reader.rows, reader.pin, self.clock.now_us, reader.slot_of, **options)
        reader.followers.append(self.cards.committed)

    def do(self, intent: Any) -> Done:
        answer = self.node.writer.submit(
            [intent], actor="agent:t", received_at=self.clock.now_us()
        ).result()
        assert isinstance(answer.outcomes[0], Done), answer.outcomes[0]
        return answer.outcomes[0]

    def say(self, relation: str = "memory:role", v: str = "A", **fields: Any) -> str:
        done = self.do(asserted(ENTITY, relation, Value("string", v), **fields))
        assert done.fact_id is not None
        return done.fact_id

    def serve(self, rights: Authorization = READER, key: CardKey = KEY, **options: Any) -> Served:
        view = self.node.reader.pin()
        moment = Moment(view.position, self.clock.now_us())
        return self.cards.serve(AskedCard(view, key, rights, moment), **options)

    def warm(self) -> Served:
        """Let the queue work, then read the card."""
        self.work()
        served = self.serve()
        assert served.card is not None
        assert not served.stale
        return served

    def work(self) -> None:
        """Do the work of the queue's thread."""
        while self.cards.queue._wishes:
            _, work = self.cards.queue._wishes.popitem(last=False)
            work()

    def close(self) -> None:
        self.cards.close()
        self.node.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "data")
    yield made
    made.close()


def slots(found: I32) -> set[int]:
    return set(found.tolist())


def test_a_view_from_before_a_card_gets_none_that_shows_more(desk: Desk) -> None:
    desk.say()
    before = desk.node.reader.pin()
    moment = Moment(before.position, desk.clock.now_us())
    desk.say("memory:note", "B")
    desk.serve()  # queues it
    shown = desk.warm().card
    assert shown is not None
    assert "| B |" in shown.markdown
    asked = AskedCard(before, KEY, READER, moment)
    assert desk.cards.serve(asked).card is None
    written = desk.cards.exact(asked).card
    assert written is not None
    assert "| B |" not in written.markdown
    assert desk.serve().card == shown


# -- §20.4.3 ------------------------------------------------------------------------------


def test_no_card_at_first_and_one_is_queued(desk: Desk) -> None:
    desk.say()
    served = desk.serve()
    assert served.card is None
    assert not served.stale
    assert desk.cards.queue.waiting == 1
    assert "| memory:role | A |" in desk.warm().card.markdown  # type: ignore[union-attr]


def test_an_entity_without_facts_has_no_card_and_nothing_is_queued(desk: Desk) -> None:
    desk.say()
    served = desk.serve(key=CardKey("user:nobody", "local"))
    assert (served.card, served.stale) == (None, False)
    assert desk.cards.queue.waiting == 0


def test_a_new_fact_makes_the_card_stale_and_queues_it(desk: Desk) -> None:
    desk.say()
    desk.serve()
    old = desk.warm()
    desk.say("tag:x", "new")
    assert desk.cards.queue.waiting == 1, "queued by the write, before any request"
    served = desk.serve()
    assert served.stale
    assert served.card == old.card, "still readable while it is refreshed"
    assert "| tag:x | new |" in desk.warm().card.markdown  # type: ignore[union-attr]


def test_facts_of_others_leave_a_card_alone(desk: Desk) -> None:
    desk.say()
    desk.serve()
    old = desk.warm()
    desk.do(asserted(ENTITIES[1]))
    desk.do(asserted(ENTITY, scope="company"))
    desk.work()
    assert desk.serve() == old


def test_a_sweep_that_changes_confidence_makes_it_stale(desk: Desk) -> None:
    desk.say()
    desk.serve()
    desk.warm()
    desk.clock.advance(DAY_US)
    desk.do(SweepDecay(scopes=("local",), policies=(HALF_LIFE,)))
    assert desk.cards.queue.waiting == 1
    assert desk.serve().stale
    assert "| memory:role | A | 0.50 |" in desk.warm().card.markdown  # type: ignore[union-attr]


def test_a_sweep_that_changes_nothing_leaves_it_fresh(desk: Desk) -> None:
    desk.say()
    desk.serve()
    old = desk.warm()
    policy = DecayPolicy(id="tags", relation="tag:*", mode="confidence", half_life_s=1.0)
    desk.do(SweepDecay(scopes=("local",), policies=(policy,)))
    desk.work()
    assert desk.serve() == old, "checked, with the same text"


def test_trust_in_a_source_makes_it_stale(desk: Desk) -> None:
    desk.say()
    desk.say("tag:x", source="agent:two")
    desk.serve()
    desk.warm()
    desk.do(SourceTrustSet(source="agent:two", trust=0.5))
    assert desk.cards.queue.waiting == 1
    assert desk.serve().stale
    assert "trust 0.50" in desk.warm().card.markdown  # type: ignore[union-attr]


def test_age_alone_makes_it_stale(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "data", max_age_s=60)
    desk.say()
    desk.serve()
    desk.warm()
    desk.clock.advance(60_000_000)
    assert not desk.serve().stale
    desk.clock.advance(1)
    assert desk.serve().stale
    assert desk.cards.queue.waiting == 1
    assert desk.warm().moment.instant_us == desk.clock.now_us()
    desk.close()


def test_a_settled_contradiction_makes_it_stale(desk: Desk) -> None:
    desk.say()
    winner = desk.say(v="B", confidence=0.9)
    desk.serve()
    old = desk.warm()
    assert old.card is not None
    assert old.card.has_contradictions
    view = desk.node.reader.pin()
    (shown,) = conflicts(desk.node.reader, view, READER, Moment(view.position, START_US))
    desk.do(
        ResolveConflict(
            conflict_id=shown.row.conflict_id, winning_fact_id=winner, source="agent:judge"
        )
    )
    assert desk.cards.queue.waiting == 1
    assert desk.serve().stale
    card = desk.warm().card
    assert card is not None
    assert not card.has_contradictions
    assert "| memory:role | A | 1.00 | set aside |" in card.markdown
    assert "| memory:role | B | 0.90 | current |" in card.markdown


def test_events_that_change_no_card_queue_nothing(desk: Desk) -> None:
    desk.say()
    desk.serve()
    desk.warm()
    desk.do(
        KeyIssued(
            key_id=str(uuid4()),
            entity_uri="agent:x",
            permissions=["read"],
            key_sha256="0" * 64,
            scopes=[],
        )
    )
    assert desk.cards.queue.waiting == 0


# -- §20.4.5 ------------------------------------------------------------------------------


def test_a_card_that_a_new_fact_contradicts_is_thrown_away(desk: Desk) -> None:
    desk.say()
    desk.serve()
    desk.warm()
    desk.say(v="B")
    served = desk.serve()
    assert served.card is None
    assert served.stale
    view = desk.node.reader.pin()
    assert slots(served.divergent) == set(range(view.count)), "both sides"
    again = desk.serve()
    assert again.card is None, "not served until it is written again"
    assert slots(again.divergent) == slots(served.divergent)
    card = desk.warm().card
    assert card is not None
    assert len(card.disputes) == 1


def test_a_third_value_beside_a_shown_contradiction_diverges_too(desk: Desk) -> None:
    desk.say()
    desk.say(v="B")
    desk.serve()
    desk.warm()
    third = desk.say(v="C")
    served = desk.serve()
    assert served.card is None
    assert slots(served.divergent) == {desk.node.reader.slot_of(third)}


def test_a_card_that_shows_a_retracted_fact_is_thrown_away(desk: Desk) -> None:
    fact = desk.say()
    desk.say("tag:x")
    desk.serve()
    desk.warm()
    desk.do(RetractFact(fact_id=fact))
    served = desk.serve()
    assert served.card is None
    assert served.stale
    assert "memory:role" not in desk.warm().card.markdown  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["retracted", "hidden"])
def test_a_card_that_shows_a_weak_side_now_gone_is_thrown_away(desk: Desk, how: str) -> None:
    desk.say(source="agent:b")
    weak = desk.do(asserted(ENTITY, value=Value("ref", "user:weak"), confidence=0.1)).fact_id
    desk.serve()
    card = desk.warm().card
    assert card is not None
    assert "user:weak" in card.markdown
    if how == "retracted":
        desk.do(RetractFact(fact_id=str(weak)))
    else:
        name = "user:weak"
        desk.do(
            TombstoneSet(
                tombstone_id="t-1", entity=name, entity_uri=name, scope="local", scopes=["local"],
                created_at="2024-01-01T00:00:00Z", signed_by="agent:t", key_id="", signature="",
            )
        )  # fmt: skip
    assert desk.serve().card is None
    assert "user:weak" not in desk.warm().card.markdown  # type: ignore[union-attr]


def test_a_card_that_shows_an_expired_fact_is_thrown_away(desk: Desk) -> None:
    desk.say(valid_until="2023-11-20T00:00:00Z")
    desk.say("tag:x")
    desk.serve()
    desk.warm()
    desk.clock.advance(10 * DAY_US)  # no event marks this
    assert desk.serve().card is None
    assert "memory:role" not in desk.warm().card.markdown  # type: ignore[union-attr]


# -- force --------------------------------------------------------------------------------


class Slow:
    """A generator that waits for its release."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()

    def __call__(self, *arguments: Any) -> Card | None:
        self.go.wait(10)
        return card_of(*arguments)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Desk, Slow]]:
    write = Slow()
    desk = Desk(tmp_path / "data", write=write, force_seconds=0.4)
    desk.cards.start()
    yield desk, write
    write.go.set()
    desk.close()


def test_force_takes_at_most_the_seeds_500_ms() -> None:
    assert FORCE_SECONDS_MAX == 0.5


def test_force_waits_for_the_card_of_now(slow: tuple[Desk, Slow]) -> None:
    desk, _ = slow
    desk.say()
    served = desk.serve(force=True)
    assert served.card is not None
    assert (served.stale, served.timed_out) == (False, False)


def test_force_without_a_card_gives_up_in_time(slow: tuple[Desk, Slow]) -> None:
    desk, write = slow
    desk.say()
    write.go.clear()
    served = desk.serve(force=True)
    assert (served.card, served.stale, served.timed_out) == (None, True, True)
    write.go.set()
    assert desk.cards.queue.settle(5)
    assert desk.serve().card is not None, "slow work still finishes"


def test_force_falls_back_to_the_stale_card(slow: tuple[Desk, Slow]) -> None:
    desk, write = slow
    desk.say()
    old = desk.serve(force=True)
    write.go.clear()
    desk.say("tag:x")
    served = desk.serve(force=True)
    assert served.card == old.card
    assert (served.stale, served.timed_out) == (True, True)


def test_force_never_falls_back_to_a_card_that_is_untrue(slow: tuple[Desk, Slow]) -> None:
    desk, write = slow
    desk.say()
    desk.serve(force=True)
    write.go.clear()
    desk.say(v="B")
    served = desk.serve(force=True)
    assert served.card is None
    assert served.timed_out
    assert len(served.divergent) == 2


def test_no_reader_waits_for_a_card_that_is_being_written(slow: tuple[Desk, Slow]) -> None:
    desk, write = slow
    desk.say()
    write.go.clear()
    assert desk.serve().card is None
    assert desk.serve().card is None, "in flight: no block"


# -- rights -------------------------------------------------------------------------------


def in_garden(path: Path, fact: str, garden: str) -> None:
    """Move a fact into a garden behind the node's back."""
    db = apsw.Connection(str((path / "projections.db").resolve()))
    db.execute("UPDATE fact_rows SET garden_id=? WHERE id=?", (garden, fact))
    db.close()


def test_a_card_never_mixes_gardens_and_is_for_their_readers_only(tmp_path: Path) -> None:
    path = tmp_path / "data"
    desk = Desk(path)
    desk.say("memory:open", "seen by all")
    secret = desk.say("memory:secret", "seen by few")
    other = desk.say("memory:other", "seen by others")
    desk.close()
    in_garden(path, secret, "g1")
    in_garden(path, other, "g2")
    desk = Desk(path)
    member = Authorization("agent:m", frozenset({"read"}), frozenset({"local"}), frozenset({"g1"}))
    inside = CardKey(ENTITY, "local", "g1")
    for _ in range(2):  # first not written, then from the cache
        texts = {}
        for key in (KEY, inside, CardKey(ENTITY, "local", "g2")):
            for reader in (READER, member):
                served = desk.serve(reader, key, force=True)
                texts[key.garden, reader.principal] = served.card and served.card.markdown
        for reader in ("agent:reader", "agent:m"):
            text = texts[None, reader]
            assert text is not None
            assert "seen by all" in text
            assert "seen by few" not in text
            assert "seen by others" not in text
        assert texts["g1", "agent:reader"] is None
        assert "seen by few" in (texts["g1", "agent:m"] or "")
        assert "seen by all" not in (texts["g1", "agent:m"] or "")
        assert texts["g2", "agent:m"] is None
        desk.work()
    desk.close()


def test_a_cached_card_is_not_served_to_a_reader_who_sees_less(desk: Desk) -> None:
    desk.say()
    desk.serve(force=True)
    blind = Authorization("agent:blind", frozenset({"read"}), frozenset({"company"}))
    served = desk.serve(blind)
    assert served.card is None
    assert not served.stale, "not even its existence"


def test_past_cards_are_exact_and_never_kept(desk: Desk) -> None:
    desk.say()
    view = desk.node.reader.pin()
    then = Moment(view.position, START_US)
    desk.say("tag:x")
    asked = AskedCard(desk.node.reader.pin(), KEY, READER, then)
    past = PastCards(desk.node.reader.rows).serve(asked)
    assert past.card is not None
    assert past.card.facts == 1
    assert not past.stale
    assert len(desk.cards.cache) == 0


# -- bounds -------------------------------------------------------------------------------


def test_the_cache_is_limited_in_bytes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engramlog.projections.cards.cache.CACHED_BYTES_MAX", 8_000)
    for number in range(10):
        entity = f"user:{number}"
        desk.do(asserted(entity))
        desk.serve(key=CardKey(entity, "local"), force=True)
    cache = desk.cards.cache
    assert 0 < len(cache) < 10
    assert cache._bytes <= 8_000
    assert CardKey("user:9", "local") in cache
    assert cache.of_entity("user:0") == []


def test_a_large_contradiction_shows_two_sides_and_leaves_room_for_the_rest(desk: Desk) -> None:
    for number in range(GROUP_MAX + 5):
        desk.say(v="A", source=f"agent:{number}")
    desk.say(v="B", confidence=0.5)
    desk.say("tag:x", "still here", confidence=0.4)
    card = desk.serve(force=True).card
    assert card is not None
    assert [side.value for side in card.disputes[0]] == ["A", "B"]
    assert "| tag:x | still here |" in card.markdown
    assert card.facts == GROUP_MAX + 7
    assert len(card.shown) + card.omitted == card.facts
