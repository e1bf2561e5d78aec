"""Records beside speech in one memory: what neighbours lend, and what a question is about."""

import numpy as np
import pytest

from engramlog.projections.recall.conversation.context import ConversationContext
from engramlog.projections.recall.conversation.conversations import conversations
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import World, reader, survey_of, user

TALK = ConversationContext(before=(0.5, 0.25), after=(0.25,), facts_max=50)
SAID = (
    "Is the printer on the third floor working again?",
    "No, I think that it has got the old toner in it.",
    "Then I will bring a new one over in the morning.",
)
TICKETS = (
    ("1041", "Printer prints blank pages", "Brightwell Dental", "closed", "toner sealed"),
    ("1042", "Login fails after reset", "Hale & Sons", "closed", "proxy cleared"),
    ("1043", "VPN drops every hour", "Orchard Architects", "open", ""),
    ("1044", "Invoice charged twice", "Hale & Sons", "open", ""),
)
DEALS = (
    ("4401", "Halvorsen Shipping", "negotiation", "84000 EUR", "Tanja Wolff"),
    ("4402", "Pinewood Hospital", "proposal", "132000 EUR", "Marcus Reid"),
    ("4403", "Lumen Bakery", "won", "7800 EUR", "Tanja Wolff"),
    ("4404", "Okafor Logistics", "discovery", "51000 EUR", "Selin Acar"),
)
SOLD = {
    "what is the amount of the Pinewood deal?": "132000 EUR",
    "who is the owner for Okafor?": "Selin Acar",
    "which stage is Halvorsen in?": "negotiation",
    "amount for Lumen?": "7800 EUR",
}


def rows(world: World, kind: str, relations: str, table: tuple[tuple[str, ...], ...]) -> list[int]:
    """The facts of a table, row after row."""
    return [
        world.fact(user(f"{kind}-{key}"), relation, value)
        for key, *values in table
        for relation, value in zip(relations.split(), values, strict=True)
        if value
    ]


def members(world: World, slots: list[int], *scopes: str) -> list[int]:
    at = survey_of(world, "", *scopes, context=TALK)
    return conversations(at, TALK, np.array(slots, dtype=np.int32)).members.tolist()


def test_rows_between_what_is_said_lend_nothing_and_add_no_distance() -> None:
    world = World()
    first = world.fact(user("ann"), "said", SAID[0])
    tickets = rows(world, "ticket", "title customer status solution", TICKETS)
    later = [world.fact(user("ann"), "said", text) for text in SAID[1:]]
    assert members(world, [first, *tickets, *later]) == [first, *later]
    assert members(world, tickets) == [first, *later]  # of the same source, and without the rows


def test_one_relation_with_sentences_is_told_beside_another_with_values() -> None:
    world = World()
    notes, states = list[int](), list[int]()
    for key, text in enumerate(SAID):
        states.append(world.fact(user(f"t{key}"), "status", "closed"))
        notes.append(world.fact(user(f"t{key}"), "comment", text))
    assert members(world, notes + states) == notes


def test_texts_of_some_length_are_told_in_any_language() -> None:
    world = World()
    texts = (
        "Gestern waren drei Geburten hintereinander, heute schlafe ich",
        "Morgen gehen Lotte und Emil zusammen ins Schwimmbad",
    )
    told = [world.fact(user("katrin"), "said", text) for text in texts]
    assert members(world, told) == told


@pytest.mark.parametrize(
    "turns",
    [
        ("你昨天把自行车停在哪里了？", "车站后面。", "好的。", "不客气。"),
        ("Где велосипед?", "За вокзалом.", "Спасибо.", "Не за что."),
        ("bike parked where?", "shed behind station", "thanks", "np"),
    ],
)
def test_short_turns_of_a_talk_are_told_in_any_language(turns: tuple[str, ...]) -> None:
    world = World()
    said = [world.fact(user(("ann", "bo")[n % 2]), "said", text) for n, text in enumerate(turns)]
    assert members(world, said[:1]) == said


def test_a_hidden_turn_makes_no_talk_of_entries() -> None:
    world = World()
    world.fact(user("ann"), "said", "parked where?", scope="team")
    entry = world.fact(user("ann"), "said", "behind station")
    assert members(world, [entry]) == []
    assert entry in members(world, [entry], "company", "team")


def test_hidden_sentences_make_no_speech_of_rows() -> None:
    world = World()
    for text in SAID * 6:
        world.fact(user("ann"), "note", text, scope="team")
    row = world.fact(user("ann"), "note", "closed")
    assert members(world, [row]) == []
    assert row in members(world, [row], "company", "team")


def test_a_long_talk_with_rows_in_it_is_read_around_what_is_said() -> None:
    world = World()
    said = [world.fact(user("ann"), "said", SAID[n % 3]) for n in range(60)]
    row = world.fact(user("bo"), "status", "closed")
    assert members(world, [row]) == []
    assert members(world, [said[30], row]) == said[30 - 16 : 30 + 17]


@pytest.mark.parametrize(("question", "value"), SOLD.items())
def test_a_row_is_found_by_a_part_of_the_name_of_what_it_is_about(
    question: str, value: str
) -> None:
    world = World()
    rows(world, "deal", "customer stage amount owner", DEALS)
    for key, (_, customer, *_rest) in enumerate(DEALS):
        world.fact(user(f"contact-{key}"), "company", customer)
    answer = recall(
        world.view(), world.rows, RecallRequest(query=question, limit=3), load_profile("default"),
        reader(), world.moment(), stopwatch=lambda: 0.0,
    )  # fmt: skip
    assert value in [each.row.value_v for each in answer.results]
