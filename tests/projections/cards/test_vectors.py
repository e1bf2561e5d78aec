"""Vectors of cards: they live as long as their cards, and can raise their facts' scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import FactAttributes, Value
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.serving import Cards
from engramlog.projections.embedding.choosing import Choice
from engramlog.projections.embedding.errors import ProviderUnavailable
from engramlog.projections.embedding.service import Embeddings
from engramlog.projections.moment import Moment
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, survey
from engramlog.projections.recall.stages import semantic
from engramlog.projections.recall.stages.candidates import Candidates
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.cards import CardKey
from engramlog.projections.writing.commands import Done, RetractFact
from tests.worlds.histories import ALL_SCOPES, asserted
from tests.worlds.provider_double import CARD, SPACE, WordsProvider
from tests.worlds.stated_facts import stated

ATLAS = "stigmem://t/project/atlas"
OTHER = "stigmem://t/project/other"
KEY = CardKey(ATLAS, "local")
READER = Authorization("agent:reader", frozenset({"read"}), ALL_SCOPES)


class Desk:
    """A node with cards and embeddings, both at work in their threads."""

    def __init__(self, path: Path) -> None:
        self.node = Node.open(path / "data")
        self.provider = WordsProvider()
        choice = Choice(self.provider, CARD, SPACE, False)
        reader = self.node.reader
        self.embeddings = Embeddings(
            path, self.node.log, reader, choice, file="vectors.db", min_confidence=0.1
        )
        vectors = self.embeddings.semantics.cards
        assert vectors is not None
        self.vectors = vectors
        self.cards = Cards(
            reader.rows, reader.pin, self.node.clock.now_us, reader.slot_of,
            vectors=lambda: self.vectors,
        )  # fmt: skip
        reader.followers.append(self.cards.committed)
        self.cards.start()

    def say(
        self, text: str, entity: str = ATLAS, relation: str = "memory:note", **more: Any
    ) -> str:
        intent = stated(asserted(entity, relation, Value("text", text)), **more)
        done = self.node.write(intent)[0]
        assert isinstance(done, Done)
        assert done.fact_id is not None
        return done.fact_id

    def write_card(self, key: CardKey = KEY, reader: Authorization = READER) -> None:
        asked = AskedCard(self.node.reader.pin(), key, reader, self.node.moment())
        self.cards.serve(asked, force=True)
        self.settle()

    def settle(self) -> None:
        assert self.embeddings.worker.wait(self.node.log.head().position, 10)
        assert self.cards.queue.settle(10)
        assert self.cards.embedding.settle(10)

    def in_table(self) -> list[str]:
        pages = self.embeddings._table.pages()
        return sorted(name for names, _ in pages for name in names if name.startswith("card:"))

    def ask(self, query: str, share: float, **more: Any) -> Candidates:
        view = self.node.reader.pin()
        surveyed = survey(
            view,
            RecallRequest(query=query),
            more.get("rights", READER),
            more.get("moment", self.node.moment()),
            gate=Gate(0.0, True),
            depth=1,
            semantics=self.embeddings.semantics,
        )
        return semantic.run(surveyed, semantic.Parameters(floor=0.3, card_share=share), {})

    def close(self) -> None:
        self.cards.close()
        self.embeddings.close()
        self.node.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def test_a_written_card_is_embedded_under_its_own_key(desk: Desk) -> None:
    desk.say("blue whales sing")
    desk.settle()
    assert desk.in_table() == [], "no card, no vector"
    desk.write_card()
    assert desk.in_table() == ["card:stigmem://t/project/atlas:local"]
    assert any("blue whales sing" in text for text in desk.provider.embedded[1:])


def test_a_cards_vector_follows_its_text(desk: Desk) -> None:
    desk.say("blue whales sing")
    desk.write_card()
    before = dict(desk.vectors._rows)
    desk.say("ships sail", relation="memory:other")
    desk.settle()
    assert desk.in_table() == [KEY.vector_key]
    assert (before[KEY] != desk.vectors._rows[KEY]).any()


def test_a_cards_vector_goes_with_the_last_fact(desk: Desk) -> None:
    fact = desk.say("blue whales sing")
    desk.write_card()
    desk.node.write(RetractFact(fact_id=fact))
    desk.settle()
    assert desk.in_table() == []
    assert len(desk.vectors) == 0


def test_a_cards_vector_goes_with_the_cached_card(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.say("blue whales sing")
    desk.write_card()
    monkeypatch.setattr("engramlog.projections.cards.cache.CACHED_BYTES_MAX", 4_000)
    desk.say("ships sail", OTHER)
    desk.write_card(CardKey(OTHER, "local"))
    assert desk.in_table() == [CardKey(OTHER, "local").vector_key]


def test_no_cache_keeps_the_text_of_a_card(desk: Desk) -> None:
    desk.say("blue whales sing")
    desk.settle()
    held = _vectors_cached(desk)
    desk.write_card()
    assert _vectors_cached(desk) == held


def _vectors_cached(desk: Desk) -> int:
    return query(desk.embeddings.cache._db, "SELECT count(*) FROM vectors")[0][0]


def test_a_provider_that_is_away_costs_only_the_vector(desk: Desk) -> None:
    desk.say("blue whales sing")
    desk.settle()
    desk.provider.fault = ProviderUnavailable("away")
    asked = AskedCard(desk.node.reader.pin(), KEY, READER, desk.node.moment())
    desk.cards.serve(asked, force=True)
    assert desk.cards.embedding.settle(10)
    assert desk.in_table() == []
    assert KEY in desk.cards.cache


def test_a_card_like_the_question_lifts_facts_that_are_not(desk: Desk) -> None:
    desk.say("blue whales sing songs under water")
    unlike = desk.say("forty two", relation="memory:count")
    desk.say("ships sail", OTHER)
    desk.write_card()
    slot = desk.node.reader.slot_of(unlike)
    assert slot is not None
    assert slot not in desk.ask("blue whales sing songs under water", 0.0).slots
    found = desk.ask("blue whales sing songs under water", 0.5)
    assert slot in found.slots
    reasons = found.why(np.array([slot], dtype=np.int32))
    assert reasons == [[f"semantic: by the card of {ATLAS}"]]
    assert len(found.slots) == 2, "the other entity has no effect"
    assert (found.slots[:-1] < found.slots[1:]).all()
    best, least = found.scores.max(), found.scores.min()
    assert 0 < least <= 0.5
    assert best > least, "facts similar to the question stay ahead"


def test_no_lift_in_the_past_or_where_the_reader_sees_nothing(desk: Desk) -> None:
    desk.say("blue whales sing songs under water")
    unlike = desk.say("forty two", relation="memory:count")
    desk.write_card()
    slot = desk.node.reader.slot_of(unlike)
    head = desk.node.moment()
    question = "blue whales sing songs under water"
    assert slot in desk.ask(question, 0.5).slots
    desk.say("ships sail", OTHER)
    assert slot not in desk.ask(question, 0.5, moment=head).slots
    dated = Moment(head.position + 1, head.instant_us, head.instant_us)
    assert slot not in desk.ask(question, 0.5, moment=dated).slots
    blind = Authorization("agent:b", frozenset({"read"}), frozenset({"company"}))
    assert not len(desk.ask(question, 0.5, rights=blind).slots)


def test_an_unreadable_card_takes_no_place(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "CARDS_MAX", 1)
    question = "blue whales sing songs under water"
    desk.say(question, OTHER, scope="team")
    desk.write_card(CardKey(OTHER, "team"))
    desk.say("blue whales sing songs under ice")
    unlike = desk.say("forty two", relation="memory:count")
    desk.write_card()
    reader = Authorization("agent:b", frozenset({"read"}), frozenset({"local"}))
    assert desk.node.reader.slot_of(unlike) in desk.ask(question, 0.5, rights=reader).slots


def test_a_card_lifts_nothing_by_facts_classified_too_high(desk: Desk) -> None:
    question = "blue whales sing songs under water"
    desk.say(question)
    public = FactAttributes(classification=0)
    unlike = desk.say("forty two", relation="memory:count", attributes=public)
    low = READER.capped(0)
    slot = desk.node.reader.slot_of(unlike)
    for reader in (READER, low):
        desk.write_card(KEY, reader)
        assert slot in desk.ask(question, 0.5).slots
        assert not len(desk.ask(question, 0.5, rights=low).slots)
