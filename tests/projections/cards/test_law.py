"""A card at any moment equals that of a naive writer over its reader's facts."""

import tempfile
from pathlib import Path

from hypothesis import given, settings

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import SourceTrustSet, TrustPolicySet
from engramlog.projections.authorization import Authorization
from engramlog.projections.cards.content import Card
from engramlog.projections.cards.generator import card_at
from engramlog.projections.cards.inputs import AskedCard
from engramlog.projections.cards.serving import Cards
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.cards import CardKey, find_card
from tests.worlds.histories import ENTITIES, START_US, Step, histories, intent_at
from tests.worlds.model import Fact, Model

SCOPES = ("local", "company")
KEYS = tuple(CardKey(entity, scope) for entity in ENTITIES for scope in SCOPES)


def reader_of(*scopes: str) -> Authorization:
    return Authorization("agent:reader", frozenset({"read"}), frozenset(scopes))


class Naive:
    """Cards by the seed's text, from the model's plain facts."""

    def __init__(self) -> None:
        self.model = Model()
        self.trust: dict[str, float] = {}
        self.trusting = True

    def text(self, key: CardKey, at_us: int) -> str | None:
        facts = [
            fact
            for fact in self.model.facts
            if (fact.asserted.entity, fact.asserted.scope) == (key.entity, key.scope)
            and fact.is_live
            and not fact.expired(at_us)
            and not fact.asserted.relation.startswith("stigmem:")
        ]
        members = [fact for fact in facts if self._effective(fact) >= 0.3]
        if not members:
            return None
        rows = sorted(members, key=lambda fact: -self.model.facts.index(fact))
        rows.sort(key=lambda fact: fact.asserted.relation)
        newest = max(fact.recorded_at for fact in members)
        lines = [
            f"# {key.entity}",
            "",
            f"- scope: {key.scope}",
            f"- facts: {len(members)}",
            f"- newest: {_second(newest)}",
            "",
            "## Facts",
            "",
            "| relation | value | confidence | status | source | recorded |",
            "|---|---|---|---|---|---|",
            *(self._row(fact, at_us) for fact in rows),
        ]
        disputes = [
            self._dispute(relation, facts, at_us)
            for relation in sorted({fact.asserted.relation for fact in members})
            if any(
                self._disputed(fact, at_us)
                for fact in members
                if fact.asserted.relation == relation
            )
        ]
        if disputes:
            lines += ["", "## Contradictions", "", *disputes]
        lines += ["", "## Sources", ""]
        for source in sorted({fact.asserted.source for fact in members}):
            count = sum(fact.asserted.source == source for fact in members)
            lines.append(f"- {source}: {count} facts, trust {self._trust(source):.2f}")
        return "\n".join(lines) + "\n"

    def _effective(self, fact: Fact) -> float:
        return round(fact.confidence * self._trust(fact.asserted.source), 6)

    def _trust(self, source: str) -> float:
        return self.trust.get(source, 1.0) if self.trusting else 1.0

    def _disputed(self, fact: Fact, at_us: int) -> bool:
        return not fact.aside and bool(self.model.rivals(fact, at_us))

    def _row(self, fact: Fact, at_us: int) -> str:
        status = "contradicted" if self._disputed(fact, at_us) else "current"
        status = "set aside" if fact.aside else status
        said = fact.asserted
        return (
            f"| {said.relation} | {said.value.v} | {fact.confidence:.2f} | {status}"
            f" | {said.source} | {_second(fact.recorded_at)} |"
        )

    def _dispute(self, relation: str, facts: list[Fact], at_us: int) -> str:
        sides = [
            fact
            for fact in facts
            if fact.asserted.relation == relation and self._disputed(fact, at_us)
        ]
        sides.sort(key=lambda fact: (-self._effective(fact), -self.model.facts.index(fact)))
        best = {fact.value: fact for fact in reversed(sides)}
        shown = [fact for fact in sides if best[fact.value] is fact]
        said = " ≠ ".join(
            f"{fact.asserted.value.v} (confidence {fact.confidence:.2f}, {fact.asserted.source})"
            for fact in shown
        )
        return f"- {relation}: {said}"


def _second(instant_us: int) -> str:
    return format_instant(instant_us)[:19] + "Z"


def markdown(card: Card | None) -> str | None:
    return None if card is None else card.markdown


@given(histories(erasing=False))
def test_cards_equal_the_naive_ones_live_and_as_of(steps: list[Step]) -> None:
    naive = Naive()
    expected: dict[tuple[CardKey, Moment], str | None] = {}
    rights = reader_of(*SCOPES)
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        reader = node.reader
        cards = Cards(reader.rows, reader.pin, lambda: START_US, reader.slot_of)
        reader.followers.append(cards.committed)
        try:
            for step in steps:
                intent = intent_at(step, node)
                if intent is None:
                    continue
                answer = node.writer.submit([intent], actor="agent:t", received_at=step.at_us)
                naive.model.take(intent, answer.result().outcomes[0], step.at_us)
                if isinstance(intent, SourceTrustSet):
                    naive.trust[intent.source] = intent.trust
                if isinstance(intent, TrustPolicySet):
                    naive.trusting = intent.policy.mode != "off"
                view = reader.pin()
                moment = Moment(view.position, step.at_us)
                for key in KEYS:
                    expected[key, moment] = text = naive.text(key, step.at_us)
                    asked = AskedCard(view, key, rights, moment)
                    served = cards.serve(asked)
                    if served.card is not None and not served.stale:
                        assert served.card.markdown == text, "a fresh card is exact"
                    assert markdown(cards.exact(asked).card) == text
            view = reader.pin()
            for (key, moment), text in expected.items():
                asked = AskedCard(view, key, rights, moment)
                assert markdown(card_at(asked, reader.rows)) == text
                blind = reader_of(*(set(SCOPES) - {key.scope}))
                assert card_at(AskedCard(view, key, blind, moment), reader.rows) is None
        finally:
            node.close()


@given(histories(max_size=12))
@settings(max_examples=10, deadline=None)
def test_the_table_of_cards_is_rebuilt_from_the_log(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            for step in steps:
                intent = intent_at(step, node)
                if intent is not None:
                    node.writer.submit([intent], actor="agent:t", received_at=step.at_us).result()
            before = node.reader.digests().tables["cards"]
            with node.reader.pool.connection() as db:
                rows = query(db, "SELECT card_id, entity, scope, garden_id FROM cards")
                facts = query(db, "SELECT DISTINCT entity, scope, garden_id FROM facts")
            assert {row[1:] for row in rows} == set(facts)
            assert all(CardKey(*row[1:]).card_id == row[0] for row in rows)
            assert all(node.reader.ask(find_card, row[0]) == CardKey(*row[1:]) for row in rows)
            node.rebuild()
            assert node.reader.digests().tables["cards"] == before
        finally:
            node.close()
