"""Sf alone: abmind's black-box cases, and further ones for its faults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.moment import Moment
from engramlog.projections.recall.keywords import (
    Cutting,
    keywords_of,
    normalised,
    significant_terms,
    windows,
)
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, survey
from engramlog.projections.recall.stages.candidates import Candidates
from engramlog.projections.recall.stages.fuzzy import Parameters, run
from tests.worlds.recall_world import NOW_US, World, reader, user

DOC = Parameters()
HEAD = Parameters(
    cutting=Cutting(terms_max=8, letters_min=3, stop_words=True),
    rescue=5,
    coverage=True,
    scoring="place",
)


def add_memory(world: World, text: str, *, scope: str = "company", **own: str) -> int:
    """A memory: its text, and its original or keywords."""
    attributes = FactAttributes(**own) if own else None  # pyright: ignore[reportArgumentType]
    entity = user(f"u{world.position}")
    return world.fact(entity, "memory:said", text, scope=scope, attributes=attributes)


def find(
    world: World,
    *keywords: str,
    original: str = "",
    limit: int = 10,
    parameters: Parameters = DOC,
    moment: Moment | None = None,
) -> Candidates:
    request = RecallRequest(query=" ".join(keywords), keywords=keywords, original=original)
    gate = Gate(0.0, contradicted=True)
    at = moment or world.moment()
    return run(
        survey(world.view(), request, reader(), at, gate=gate, depth=0, limit=limit),
        parameters,
        {},
    )


def origins(found: Candidates) -> dict[int, str]:
    assert found.origin is not None
    return {slot: found.origin(slot) for slot in found.slots.tolist()}


def test_a_stem_is_found() -> None:
    world = World()
    slot = add_memory(world, "The puppy was running in the garden")
    assert origins(find(world, "puppies")) == {slot: "porter"}


def test_letters_find_facts_that_stems_miss() -> None:
    world = World()
    slot = add_memory(world, "The deployment was successful on the server")
    assert origins(find(world, "deploy")) == {slot: "trigram_en"}


def test_the_original_is_found_without_its_accents_and_with_a_letter_missing() -> None:
    world = World()
    slot = add_memory(world, "Swedish switchman story", original="A svéd váltókezelő története")
    other = add_memory(world, "Something else", original="Egészen más")
    assert origins(find(world, "zebra", original="valtokezelo")) == {slot: "trigram_orig"}
    # The missing t breaks the word; its window "kezel" survives.
    assert origins(find(world, "válókezelő")) == {slot: "trigram_orig"}
    assert other not in find(world, "switchman", original="valtokezelo").slots


def test_a_fact_is_found_by_its_keywords() -> None:
    world = World()
    slot = add_memory(world, "User has a small dog", keywords="kiskutya")
    assert origins(find(world, "kiskutya")) == {slot: "trigram_en"}


def test_z_and_y_may_be_exchanged() -> None:
    world = World()
    slot = add_memory(world, "We spoke about pizza toppings")
    assert origins(find(world, "piyya")) == {slot: "trigram_en"}


def test_operators_split_a_single_entry() -> None:
    world = World()
    slots = [add_memory(world, "Puppy cat"), add_memory(world, "Puppy dog")]
    assert find(world, "puppy OR dog").slots.tolist() == slots
    assert normalised(['"a b" AND NOT c']) == ["a b", "c"]


def test_an_entry_among_several_is_a_phrase() -> None:
    world = World()
    beside = add_memory(world, "The project deadline is Friday")
    apart = add_memory(world, "The project has no deadline")
    # "zebra" only makes it a list: one entry of two words would be split.
    assert find(world, "project deadline", "zebra").slots.tolist() == [beside]
    assert find(world, "project", "deadline").slots.tolist() == [beside, apart]
    assert find(world, "project deadline").slots.tolist() == [beside, apart]


def test_letters_are_looked_at_only_while_the_answer_has_room() -> None:
    world = World()
    whole = [add_memory(world, f"deploy number {n}") for n in range(2)]
    inside = add_memory(world, "redeployed")
    assert find(world, "deploy", limit=2).slots.tolist() == whole
    assert find(world, "deploy", limit=3).slots.tolist() == [*whole, inside]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("valokezelo", ["valok", "lokez", "kezel"]),
        ("deploys", ["depl", "ploy"]),
        ("deploy", []),
    ],
)
def test_the_windows_of_a_piece_overlap(piece: str, expected: list[str]) -> None:
    assert windows(piece) == expected


def test_significant_terms_are_few_long_and_counted_once() -> None:
    cutting = HEAD.cutting
    told_twice = ["Szoval hany gyulait ismersz Teso", "Teso Gyula"]
    expected = ["Szoval", "hany", "gyulait", "ismersz", "Teso", "Gyula"]
    assert significant_terms(told_twice, cutting) == expected
    assert len(significant_terms([" ".join(f"word{n}" for n in range(20))], cutting)) == 8
    assert significant_terms(["a be to it"], cutting) == []


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert significant_terms(["what is the plan"], Cutting()) == ["plan"]
    assert significant_terms(["who is that"], Cutting()) == ["who", "is", "that"]


def test_a_message_finds_by_its_terms_even_where_the_answer_is_full() -> None:
    world = World()
    wanted = [
        add_memory(world, "Nagy Gyula is a friend"),
        add_memory(world, "Kis Gyula is a colleague"),
    ]
    add_memory(world, "Teso says hello")
    message = "Szoval hany gyulait ismersz Teso"
    found = find(world, message, limit=1, parameters=HEAD)
    assert set(wanted) <= set(found.slots.tolist())


def test_facts_that_cover_more_of_the_keywords_come_first() -> None:
    world = World()
    felt = add_memory(world, "She felt happy")  # shorter: BM25 alone would put it first
    grows = add_memory(world, "Happiness grows when it is shared with others")
    found = find(world, "happiness", parameters=HEAD)
    assert found.best(1).slots.tolist() == [grows]
    assert found.slots.tolist() == [felt, grows]
    assert found.strong == {grows}


def test_quotes_are_text() -> None:
    world = World()
    slot = add_memory(world, 'He said "hello" to Bob')
    assert slot in find(world, 'he said "hello').slots
    assert slot in find(world, 'said "hel', "zebra").slots  # letter by letter, the quote too


_LETTERS = st.sampled_from([*'",()*^+-:{} ab', " AND ", " OR ", " NOT ", " NEAR ", "é"])


@given(st.lists(st.lists(_LETTERS, max_size=12).map("".join), min_size=1, max_size=8))
def test_no_keyword_raises(keywords: list[str]) -> None:
    world = World()
    add_memory(world, 'a "b" (AND) NEAR {c}')
    asked = RecallRequest(query="a", keywords=tuple(keywords))
    if keywords_of(asked, Cutting()).phrases:
        for parameters in (Parameters(), HEAD):
            find(world, *keywords, parameters=parameters)


def test_only_visible_facts_are_found_and_counted() -> None:
    world = World()
    add_memory(world, "deployment of the team", scope="team")
    alone = find(world, "deploy")
    assert not len(alone.slots)
    first = add_memory(world, "The deployment was successful")
    before = find(world, "deploy").scores.tolist()
    for n in range(5):
        add_memory(world, f"deployment {n}", scope="team")
    assert find(world, "deploy").slots.tolist() == [first]
    assert find(world, "deploy").scores.tolist() == before


def test_letters_are_searched_as_of_the_moment() -> None:
    world = World()
    first = add_memory(world, "redeployed twice", keywords="kutya")
    then = Moment(world.position, NOW_US)
    second = add_memory(world, "redeployed thrice", keywords="kutyák")
    world.retract(first)
    assert find(world, "deploy", moment=then).slots.tolist() == [first]
    assert find(world, "deploy").slots.tolist() == [second]
    assert find(world, "kuty", moment=then).slots.tolist() == [first]


def test_a_memory_is_found_by_its_value_and_not_by_its_names() -> None:
    world = World()
    text = "uses sqlite for storage"
    slots = [world.fact(user("stored"), "memory:use", f"{text} {n}") for n in range(3)]
    said = world.fact(user("ann"), "rel:note", "memory of a user")
    for parameters in (DOC, HEAD):
        for name in ("stored", "x.example"):
            assert not len(find(world, name, parameters=parameters).slots)
        assert find(world, "memory", parameters=parameters).slots.tolist() == [said]
        assert find(world, "memory", "user", parameters=parameters).slots.tolist() == [said]
        # "uses" in the value; the relation's "use" does not count
        assert origins(find(world, "use", limit=3, parameters=DOC)) == dict.fromkeys(
            slots, "porter"
        )
    assert find(world, "memory", parameters=HEAD).strong == {said}


def test_names_do_not_change_a_score() -> None:
    scores: list[list[float]] = []
    for entity, relation in (("user:x", "rel:y"), ("user:tea-of-tea", "tea:tea-and-cups")):
        world = World()
        for text in ("green tea and more tea", "tea", "cups and cups of black tea"):
            world.fact(entity, relation, text)
        scores.append(find(world, "tea", "cups").scores.tolist())
    assert scores[0] == scores[1]
    assert len(scores[0]) == 3


def test_terms_of_names_come_and_go_with_the_facts() -> None:
    world = World()
    first = world.fact("user:x", "rel:y", "tea")
    assert find(world, "tea").slots.tolist() == [first]
    world.fact("user:tea", "rel:tea", "cups")
    third = world.fact("user:tea", "rel:tea", "tea of tea")
    assert find(world, "tea").slots.tolist() == [first, third]
