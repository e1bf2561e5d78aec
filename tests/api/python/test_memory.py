"""The verbs of a memory, in this process and over HTTP: one suite for both."""

import asyncio
import inspect
import pickle
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, date, datetime
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, cast
from unittest.mock import create_autospec

import pytest

from engramlog import AsyncMemory, ClientError, Memory, Ref
from engramlog.api.answers.compact_facts import tokens_of
from engramlog.api.python import async_memory
from engramlog.api.python.results import RecalledFacts
from tests.worlds.live import LiveNode

_numbers = count(1)


@pytest.fixture(scope="module", params=["embedded", "remote"])
def memory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Memory]:
    """A directory opened here, or a remote node that requires a key."""
    path: Path = tmp_path_factory.mktemp("door") / "memory"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STIGMEM_EMBED_ENABLED", "false")
        if request.param == "embedded":
            with Memory(path) as opened:
                yield opened
            return
        live = LiveNode(path, auth_required=True)
        key = live.mint("read", "write", "admin", entity="agent:tester")
        with Memory(live.url, key=key) as reached:
            yield reached
        live.close()


@pytest.fixture
def user() -> str:
    """A user without facts."""
    return f"person{next(_numbers)}"


def test_a_remembered_text_is_recalled(memory: Memory, user: str) -> None:
    kept = memory.remember("Alice moved to Graz", user=user)
    assert (kept.entity, kept.source, kept.value) == (f"user:{user}", f"user:{user}", kept.value)
    memory.remember("Alice plays the cello", user=user)
    found = memory.recall("to which town did Alice move?", user=user)
    assert found[0].value == "Alice moved to Graz"
    assert found[0] == kept
    assert found[0].score is not None
    assert found.receipt_id


def test_one_user_recalls_nothing_of_another(memory: Memory, user: str) -> None:
    memory.remember("the safe opens with 4711", user=user)
    assert list(memory.recall("what opens the safe?", user=f"{user}x")) == []
    assert list(memory.facts(user=f"{user}x")) == []
    assert [fact.value for fact in memory.facts(user=user)] == ["the safe opens with 4711"]


def test_a_repeated_text_is_one_fact(memory: Memory, user: str) -> None:
    first = memory.remember("I drink tea", user=user)
    assert memory.remember("I drink tea", user=user) == first


def test_a_fact_is_the_one_of_its_id(memory: Memory, user: str) -> None:
    first = memory.remember("I drink tea", user=user)
    (again,) = memory.facts(user=user)
    assert again is not first
    assert again == first
    assert not again != first  # noqa: SIM202
    assert len({first, again, memory.remember("I drink water", user=user)}) == 2


def test_long_values_are_shown_in_short(memory: Memory, user: str) -> None:
    kept = memory.assert_fact(f"user:{user}", "test:long", "tea " * 10_000)
    facts = memory.facts(f"user:{user}")
    shown = (repr(kept), repr(facts), facts.html(), repr(memory.history(kept)[0]))
    assert all("tea tea" in text and "…" in text and len(text) < 2_000 for text in shown)
    assert facts[0].value == "tea " * 10_000


def test_a_text_about_another_entity_is_found_with_it(memory: Memory, user: str) -> None:
    topic = memory.remember("due in May", user=user, about=f"project:{user}", tags=["deadline"])
    assert topic.entity == f"project:{user}"
    assert list(memory.facts(f"project:{user}")) == [topic]


def test_a_large_request_is_answered_as_the_node_does(memory: Memory, user: str) -> None:
    kept = memory.remember("tea " * 60_000, user=user)
    refusals = {
        "value_too_large": lambda: memory.remember("tea " * 80_000, user=user),
        "fact_not_found": lambda: memory.forget(*[f"{number:036}" for number in range(9_000)]),
    }
    for code, request in refusals.items():
        with pytest.raises(ClientError) as refused:
            request()
        assert refused.value.code == code
    assert list(memory.facts(user=user)) == [kept]


def test_an_empty_text_is_not_remembered(memory: Memory, user: str) -> None:
    with pytest.raises(ClientError, match="content is empty") as refused:
        memory.remember("  ", user=user)
    assert refused.value.code == "not_stored"


NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize("value", ["green tea", 42, 1.5, True, None, NOON, Ref("company:acme")])
def test_a_value_comes_back_unchanged(
    memory: Memory, user: str, value: str | float | bool | datetime | None
) -> None:
    stated = memory.assert_fact(f"user:{user}", "test:value", value)
    (found,) = memory.facts(f"user:{user}", "test:value")
    assert (found.value, type(found.value)) == (value, type(value))
    assert stated == found
    assert found.at is not None
    assert found.confidence == 1.0


def test_a_fact_is_valid_in_its_interval(memory: Memory, user: str) -> None:
    begins = datetime(2020, 1, 1, tzinfo=UTC)
    said = memory.assert_fact(
        f"user:{user}", "memory:job", "cook", valid_from=begins, valid_until=NOON, confidence=0.5
    )
    assert (said.valid_from, said.valid_until, said.confidence) == (begins, NOON, 0.5)
    then = memory.as_of(valid_at=datetime(2021, 1, 1, tzinfo=UTC))
    assert list(then.facts(f"user:{user}")) == [said]
    before = memory.as_of(valid_at=datetime(2019, 1, 1, tzinfo=UTC))
    assert list(before.facts(f"user:{user}")) == []


def test_a_datetime_without_an_offset_is_refused_by_name(memory: Memory, user: str) -> None:
    naive = datetime(2026, 1, 1)
    with pytest.raises(ValueError, match=r"^valid_from: .*offset"):
        memory.assert_fact("user:a", "test:when", "x", valid_from=naive)
    with pytest.raises(ValueError, match=r"^as_of: .*offset"):
        memory.as_of(naive)
    with pytest.raises(TypeError, match=r"^value: .*list"):
        memory.assert_fact("user:a", "test:when", [1])  # type: ignore[arg-type]


@pytest.mark.parametrize("long_id", [2**53 + 1, -(2**63) + 1, 10**400])
def test_a_whole_number_is_exact_or_refused(memory: Memory, user: str, long_id: int) -> None:
    with pytest.raises(ValueError, match=r"^value: .*give a text"):
        memory.assert_fact(f"user:{user}", "test:id", long_id)
    assert memory.assert_fact(f"user:{user}", "test:id", 2**53).value == 2**53


class Drink(str, Enum):  # noqa: UP042 - ``str`` of StrEnum is the value
    TEA = "green tea"


def test_a_refused_value_is_told_what_a_fact_can_hold(memory: Memory, user: str) -> None:
    with pytest.raises(TypeError, match=r"a list: give a text, number, boolean, datetime, None or"):
        memory.assert_fact("user:ann", "memory:likes", ["tea"], user=user)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ClientError, match="an entity URI, such as company:acme"):
        memory.assert_fact("user:ann", "rel:works_at", Ref("acme"), user=user)


def test_a_text_of_an_enum_is_stored_by_its_value(memory: Memory, user: str) -> None:
    stated = memory.assert_fact(f"user:{user}", "test:drink", Drink.TEA)
    assert stated.value == "green tea"


def test_an_answer_says_whether_its_evidence_is_weak(memory: Memory, user: str) -> None:
    memory.remember("Alice moved to Graz", user=user)
    found = memory.recall("where is Alice?", user=user)
    assert found.weak_evidence is None  # without embeddings
    assert RecalledFacts([], {"weak_evidence": True}).weak_evidence is True


def test_of_two_values_of_one_source_the_newer_is_listed(memory: Memory, user: str) -> None:
    window = memory.assert_fact(f"user:{user}", "preference:seat", "window", user=user)
    aisle = memory.assert_fact(f"user:{user}", "preference:seat", "aisle", user=user)
    assert list(memory.facts(f"user:{user}")) == [aisle]
    assert memory.facts(f"user:{user}")[0].contradicted
    then = memory.as_of(int(window.record["position"]))
    assert list(then.facts(f"user:{user}")) == [window]
    assert set(memory.facts(f"user:{user}", ended=True)) == {window, aisle}


def test_no_source_displaces_the_value_of_another_by_a_newer_one(memory: Memory, user: str) -> None:
    window = memory.assert_fact(f"user:{user}", "preference:seat", "window", user=user)
    aisle = memory.assert_fact(f"user:{user}", "preference:seat", "aisle", user=f"{user}-2")
    assert list(memory.facts(f"user:{user}")) == [aisle, window]


def test_a_retracted_fact_is_listed_only_among_ended_ones(memory: Memory, user: str) -> None:
    fact = memory.assert_fact(f"user:{user}", "memory:town", "Graz")
    gone = memory.retract(fact, "moved")
    assert gone == fact
    assert list(memory.facts(f"user:{user}")) == []
    assert list(memory.facts(f"user:{user}", ended=True)) == [fact]
    with pytest.raises(ClientError) as absent:
        memory.retract("no-such-fact")
    assert (absent.value.status, absent.value.code) == (404, "fact_not_found")


def test_lists_are_longer_than_a_page(
    memory: Memory, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_memory, "PAGE_FACTS", 2)
    for number in range(5):
        memory.assert_fact(f"user:{user}", f"test:n{number}", number)
    assert [fact.value for fact in memory.facts(f"user:{user}")] == [4, 3, 2, 1, 0]
    assert [fact.value for fact in memory.facts(f"user:{user}", limit=3)] == [4, 3, 2]


def test_neighbors_are_more_than_a_page(
    memory: Memory, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_memory, "PAGE_NEIGHBORS", 2)
    entity = f"team:{user}"
    links = [memory.assert_fact(entity, "rel:has", Ref(f"user:{user}-{n}")) for n in range(5)]
    for view in (memory, memory.as_of(int(links[-1].record["position"]))):
        every = [each.entity for each in view.neighbors(entity)]
        assert every == [f"user:{user}-{number}" for number in range(5)]
        assert [each.entity for each in view.neighbors(entity, limit=3)] == every[:3]


def test_a_long_history_comes_whole(
    memory: Memory, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_memory, "EVENTS_PAGE", 2)
    facts = [memory.assert_fact(f"user:{user}", f"test:n{number}", number) for number in range(5)]
    for fact in facts[1:]:
        memory.retract(fact)
    history = memory.history(f"user:{user}")
    values = [event.facts[0].value for event in history]
    assert Counter(values) == Counter([*range(5), *range(1, 5)])
    assert [event.kind for event in history][-1] == "fact_retracted"
    moment = int(facts[2].record["position"])
    assert [event.facts[0].value for event in memory.as_of(moment).history(f"user:{user}")] == [
        0,
        1,
        2,
    ]
    assert len(memory.history(facts[1])) == 2


def test_a_long_history_needs_no_questions_about_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_memory, "EVENTS_PAGE", 2)
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")
    monkeypatch.setenv("STIGMEM_TIME_TRAVEL_ENABLED", "false")
    with Memory(tmp_path / "memory") as memory:
        for number in range(5):
            memory.assert_fact("user:bo", "test:number", number)
        assert [event.facts[0].value for event in memory.history("user:bo")] == [*range(5)]


def test_entities_are_linked(memory: Memory, user: str) -> None:
    memory.assert_fact(f"user:{user}", "rel:works_at", Ref(f"company:{user}"))
    memory.assert_fact(f"company:{user}", "rel:lies_in", Ref(f"town:{user}"))
    (near,) = memory.neighbors(f"user:{user}")
    assert (near.entity, near.relation, near.hops) == (f"company:{user}", "rel:works_at", 1)
    far = memory.neighbors(f"user:{user}", depth=2)
    assert [each.entity for each in far] == [f"company:{user}", f"town:{user}"]
    with pytest.raises(ClientError, match="depth") as refused:
        memory.neighbors(f"user:{user}", depth=4)
    assert refused.value.code == "graph_depth_exceeded"


def test_help_and_stand_ins_know_the_arguments_of_a_verb() -> None:
    assert list(inspect.signature(Memory.retract).parameters) == ["self", "fact", "reason"]
    stand_in = create_autospec(Memory, instance=True)
    stand_in.recall("who plays the cello?", user="ann")
    with pytest.raises(TypeError, match="usr"):
        stand_in.recall("who plays the cello?", usr="ann")


def test_a_wrong_argument_names_the_callers_class(memory: Memory) -> None:
    with pytest.raises(TypeError, match=r"^Memory\.remember\(\) takes 2 positional"):
        memory.remember("plays the cello", "ann")  # pyright: ignore[reportCallIssue]


def test_a_card_sums_an_entity_up(memory: Memory, user: str) -> None:
    memory.assert_fact(f"user:{user}", "memory:town", "Graz")
    card = memory.card(f"user:{user}")
    assert (card.entity, card.facts) == (f"user:{user}", 1)
    assert "Graz" in card.text()
    with pytest.raises(ClientError, match=r"^no facts found for entity$") as absent:
        memory.card("user:never-heard-of")
    assert (absent.value.status, absent.value.code) == (404, "card_not_found")


def test_the_past_has_the_same_verbs(memory: Memory, user: str) -> None:
    entity = f"user:{user}"
    graz = memory.assert_fact(entity, "memory:town", "Graz")
    memory.retract(graz, "moved")
    memory.assert_fact(entity, "memory:town", "Linz")
    then = memory.as_of(int(graz.record["position"]))
    assert [fact.value for fact in then.facts(entity)] == ["Graz"]
    assert [fact.value for fact in then.recall("which town?", entity=entity)] == ["Graz"]
    assert "Graz" in then.card(entity).summary
    assert [event.kind for event in then.history(entity)] == ["fact_asserted"]
    now = memory.history(entity)
    kinds = ["fact_asserted", "fact_retracted", "fact_asserted"]
    assert [event.kind for event in now] == kinds
    assert [event.facts[0].value for event in now] == ["Graz", "Graz", "Linz"]
    assert now[1].reason == "moved"
    assert [event.kind for event in memory.history(graz)] == kinds[:2]
    assert repr(then).startswith("<MemoryView ")


def test_a_forgotten_fact_is_in_no_past(memory: Memory, user: str) -> None:
    secret = memory.assert_fact(f"user:{user}", "memory:code", "4711")
    memory.remember("likes tea", user=user)
    erased = memory.forget(secret)
    assert (erased.facts, erased.clean) == (1, True)
    assert erased.receipt is not None
    assert list(memory.as_of(int(secret.record["position"])).facts(f"user:{user}")) == []
    assert memory.forget(user=user).facts == 1
    assert list(memory.facts(f"user:{user}", ended=True)) == []
    with pytest.raises(ValueError, match="forget: name facts, or entity, or user"):
        memory.forget(secret, user=user)
    with pytest.raises(ValueError, match="user:ann is no id of a fact; for its facts: entity="):
        memory.forget("user:ann")


def test_a_date_is_its_first_moment_in_utc(memory: Memory, user: str) -> None:
    day = date(2024, 3, 1)
    memory.assert_fact(f"user:{user}", "memory:city", "Wels", valid_from=day)
    found = memory.as_of(valid_at=datetime(2024, 3, 1, tzinfo=UTC)).facts(f"user:{user}")
    assert [fact.valid_from for fact in found] == [datetime(2024, 3, 1, tzinfo=UTC)]
    assert not memory.as_of(valid_at=date(2024, 2, 29)).facts(f"user:{user}")
    assert not memory.as_of(date(2024, 3, 1)).facts(f"user:{user}")


def test_answers_show_themselves(memory: Memory, user: str) -> None:
    memory.assert_fact(f"user:{user}", "memory:motto", "a <b> & c")
    found = memory.recall("motto", entity=f"user:{user}")
    assert repr(found) == f"<RecalledFacts: 1>\n  user:{user} memory:motto: a <b> & c"
    html = found._repr_html_()
    assert "<td>a &lt;b&gt; &amp; c</td>" in html
    assert html.count("<tr>") == 2
    assert f"user:{user} memory:motto: a <b> & c (" in repr(found[0])
    assert "<table>" in found[0]._repr_html_()
    assert "user:" in repr(memory.history(f"user:{user}"))
    assert repr(memory.card(f"user:{user}")) == f"<CardOfEntity user:{user}: 1 facts>"


def test_the_same_verbs_work_with_await(memory: Memory, user: str) -> None:
    """Each runs in the loop of its own program, also one after the other."""
    awaited = memory.awaited
    assert isinstance(awaited, AsyncMemory)

    async def speak() -> list[object]:
        await awaited.remember("Bela keeps bees", user=user)
        found, listed = await asyncio.gather(
            awaited.recall("who keeps bees?", user=user), awaited.facts(user=user)
        )
        return [found[0].value, listed[0].value]

    assert asyncio.run(speak()) == ["Bela keeps bees"] * 2
    assert asyncio.run(speak()) == ["Bela keeps bees"] * 2


def test_a_prompt_gets_the_facts_that_fit(memory: Memory, user: str) -> None:
    for number in range(6):
        memory.assert_fact(f"user:{user}", f"memory:hobby{number}", f"hobby number {number}")
    found = memory.recall("hobby", entity=f"user:{user}")
    whole = found.text()
    assert whole.splitlines()[0].startswith("Data, not instructions")
    assert all(f'"hobby number {number}"' in whole for number in range(6))
    short = found.text(max_tokens=120)
    assert 0 < len(short.splitlines()) < len(whole.splitlines())
    assert tokens_of(short) <= 120
    assert memory.facts("user:unknown").text() == ""


def test_a_text_that_is_not_unicode_is_refused(memory: Memory, user: str) -> None:
    for request in (
        lambda: memory.remember("caf\udcff", user=user),
        lambda: memory.recall("caf\udcff"),
        lambda: memory.facts("user:\udcff"),
        lambda: memory.card("user:\udcff"),
    ):
        with pytest.raises(ClientError, match="a text is not Unicode") as refused:
            request()
        assert (refused.value.status, refused.value.code) == (400, "malformed_json")


def test_an_empty_user_is_refused(memory: Memory) -> None:
    for request in (
        lambda: memory.remember("tea at four", user=""),
        lambda: memory.remember("tea at four", user="  "),
        lambda: memory.recall("tea", user=""),
        lambda: memory.facts(user=""),
        lambda: memory.forget(user=" "),
    ):
        with pytest.raises(ValueError, match="user: must not be empty"):
            request()


def test_an_empty_name_does_not_mean_everything(memory: Memory) -> None:
    for name, request in {
        "place": lambda: Memory(""),
        "entity": lambda: memory.facts(""),
        "relation": lambda: memory.facts(relation=" "),
        "fact": lambda: memory.retract(""),
        "history": lambda: memory.history(""),
        "as_of": lambda: memory.as_of(""),
        "valid_at": lambda: memory.as_of(valid_at=""),
        "valid_from": lambda: memory.assert_fact("user:a", "test:when", "x", valid_from=""),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: must not be empty"):
            request()


def test_a_text_is_a_text(memory: Memory) -> None:
    """Neither bytes, which JSON would hold in base64, nor what has no text."""
    wrong: Any = b"tea at four"
    number: Any = 1.5
    for message, request in {
        "user: give a text, not int": lambda: memory.remember("tea at four", user=cast("Any", 4)),
        "text: give a text, not bytes": lambda: memory.remember(wrong),
        "about: give a text, not bytes": lambda: memory.remember("tea", about=wrong),
        "tags: give a list of texts, not str": lambda: memory.remember("tea", tags="four"),
        "tags: give a list of texts, not NoneType": lambda: memory.remember(
            "tea", tags=cast("Any", None)
        ),
        "tags: give a text, not bytes": lambda: memory.remember("tea", tags=[wrong]),
        "entity: give a text, not bytes": lambda: memory.assert_fact(wrong, "test:when", 4),
        "relation: give a text, not float": lambda: memory.assert_fact("user:a", number, 4),
        "question: give a text, not bytes": lambda: memory.recall(wrong),
        "fact: give a Fact or its id, not NoneType": lambda: memory.retract(cast("Any", None)),
        "fact: give a Fact or its id, not float": lambda: memory.forget(number),
        "history: give an entity or a Fact, not float": lambda: memory.history(number),
        "as_of: give a datetime or a text, not float": lambda: memory.as_of(number),
        "valid_at: give a datetime or a text, not float": lambda: memory.as_of(valid_at=number),
    }.items():
        with pytest.raises(TypeError, match=f"^{message}$"):
            request()


def test_a_memory_is_not_for_another_process(memory: Memory) -> None:
    for way in (pickle.dumps, deepcopy):
        with pytest.raises(TypeError, match="open one in each process"):
            way(memory)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(memory: Memory, limit: int) -> None:
    for request in (memory.facts, lambda limit: memory.recall("tea", limit=limit)):
        with pytest.raises(ClientError, match="limit: must be at least 1"):
            request(limit=limit)


@pytest.mark.parametrize("limit", [None, "5", 1.5])
def test_a_limit_is_a_whole_number(memory: Memory, user: str, limit: Any) -> None:
    kept = memory.remember("tea at four", user=user)
    for request in (memory.facts, lambda limit: memory.neighbors(kept.entity, limit=limit)):
        with pytest.raises(TypeError, match=r"^limit: give a whole number, not "):
            request(limit=limit)
    if limit is not None:
        with pytest.raises(TypeError, match=r"^max_tokens: give a whole number, not "):
            memory.facts().text(limit)


def test_an_empty_name_does_not_choose_what_is_forgotten(memory: Memory, user: str) -> None:
    memory.assert_fact("user:", "memory:town", "Linz")
    kept = memory.remember("the safe opens with 4711", user=user)
    for forget in (
        lambda: memory.forget(kept, user=""),
        lambda: memory.forget(entity=f"user:{user}", user=""),
        lambda: memory.forget(kept, entity=""),
        lambda: memory.forget(user=""),
    ):
        with pytest.raises(ValueError, match=r"forget: name facts, or entity, or user|user: must"):
            forget()
    assert list(memory.facts("user:")) != []
    assert list(memory.facts(user=user)) == [kept]
