"""The full-text index: the terms of each fact's text."""

from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.tables.database import query
from engramlog.projections.text.terms import Tokenizer, lexical_text
from tests.worlds.histories import START_US, Step, asserted
from tests.worlds.replaying import QUICK, lived

ENTITIES = (
    "user:alice",
    "stigmem://a.example/item/7",
    "https://host.example",
    "https://h.example/",
    "https://bücher.example/item/7",
    "https://h.example/книга/猫です",
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)
VALUES = st.one_of(
    st.builds(Value, st.just("text"), TEXTS),
    st.builds(Value, st.just("ref"), st.sampled_from(ENTITIES)),
    st.just(Value("null")),
)


@QUICK
@given(st.lists(st.tuples(st.sampled_from(ENTITIES), VALUES), min_size=1, max_size=8))
def test_the_index_holds_the_terms_of_each_facts_text(
    stated: list[tuple[str, Value]],
) -> None:
    steps = [
        Step("assert", START_US + n, 0, asserted(entity=entity, value=value))
        for n, (entity, value) in enumerate(stated)
    ]
    terms = Tokenizer()
    with lived(steps) as node:
        wanted = {
            (event.position, term)
            for event in node.log.read(0, 100)
            if isinstance(fact := event.payload, FactAsserted)
            for term in terms(
                lexical_text(fact.entity, fact.relation, fact.value.type, fact.value.v)
            )
        }
        db = node.writer.store.db
        node.reader.image.tail.settle()
        db.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab(main, lexicon, instance)")
        assert set(query(db, "SELECT doc, term FROM held")) == wanted
