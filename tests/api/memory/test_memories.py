"""Memories over HTTP: stored, repeated, ended and merged ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from engramlog.api.node.node import Node
from engramlog.api.routes.memory.memories import MemoryStored, MergedMemories
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import FactFeedback, RecallServed, RecallUse
from engramlog.projections.moment import Moment
from tests.worlds.live import LiveNode

START_US = 1_780_000_000_000_000
SECOND_US = 1_000_000
DUPLICATE = "duplicate (skipped)"
NO_VECTORS = "no embeddings: paraphrases were not compared"


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START_US)


@pytest.fixture
def timed(serve: Callable[..., LiveNode], clock: FixedClock) -> LiveNode:
    """A node whose clock moves only when the test moves it."""
    return serve(clock=clock)


def post(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> Any:
    if key is None:
        fields.setdefault("user_id", "ann")
    return live.call("POST", "/v1/memories", key=key, json={"content": content, **fields})


def store(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """A memory that must be new."""
    answer = post(live, content, key, **fields)
    assert answer.status_code == 201, answer.text
    convert(answer.json(), MemoryStored)
    assert (answer.json()["stored"], answer.json()["memoriesCount"]) == (True, 1)
    return answer.json()


def skipped(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """Post a memory that repeats a recent one."""
    count = live.node.reader.pin().count
    answer = post(live, content, key, **fields)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), MemoryStored)
    assert (answer.json()["stored"], answer.json()["memoriesCount"]) == (True, 0)
    assert live.node.reader.pin().count == count
    return answer.json()


def shown(live: LiveNode, fact: str, **query: Any) -> dict[str, Any]:
    answer = live.call("GET", f"/v1/facts/{fact}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def living(live: LiveNode, **query: Any) -> set[str]:
    answer = live.call("GET", "/v1/facts", params={"include_contradicted": True, **query})
    assert answer.status_code == 200, answer.text
    return {each["value"]["v"] for each in answer.json()["facts"]}


# -- storing ------------------------------------------------------------------------------


def test_a_memory_is_a_fact_with_attributes_and_recall_finds_it(live: LiveNode) -> None:
    stored = store(
        live, "  The puppy was running in the garden ", original="A kutyus a kertben futott",
        language="hu", memory_type="event", emotion_score=-4, emotion_tags="joy",
        tags=["kutyus", "kert"], keywords="puppy", topic="pets", relevance=10,
    )  # fmt: skip
    fact = stored["fact"]
    assert fact["value"] == {
        "type": "text", "v": "The puppy was running in the garden", "interpret_as": "content",
    }  # fmt: skip
    assert (fact["entity"], fact["source"], fact["scope"]) == ("user:ann", "user:ann", "local")
    assert fact["attributes"]["keywords"] == "puppy, kutyus, kert"
    assert fact["attributes"]["tier"] == "core"  # |-4| >= 4
    assert (stored["superseded"], stored["warnings"]) == ([], [NO_VECTORS])
    assert shown(live, stored["id"])["position"] == stored["position"]
    for keyword in ("puppy", "kutyus", "run"):
        asked = {"query": keyword, "translated": [keyword], "profile": "abmind"}
        answer = live.call("POST", "/v1/recall", json=asked).json()
        assert [each["id"] for each in answer["results"]] == [stored["id"]], keyword


def test_memories_of_one_user_do_not_contradict_each_other(live: LiveNode) -> None:
    first = store(live, "Ann likes tea")
    second = store(live, "Ann has a bicycle")
    assert not second["fact"]["contradicted"]
    assert not shown(live, first["id"])["contradicted"]
    assert live.call("GET", "/v1/conflicts").json()["conflicts"] == []


@pytest.mark.parametrize("content", ["", " ", "\n\t "])
def test_empty_content_is_not_stored(live: LiveNode, content: str) -> None:
    head = live.node.log.head().position
    answer = post(live, content)
    assert (answer.status_code, answer.json()) == (
        200,
        {"stored": False, "memoriesCount": 0, "error": "content is empty"},
    )
    assert live.node.log.head().position == head


@pytest.mark.parametrize("user", ["system", "Agent", "unknown", "stigmem://x.example/user/system"])
def test_an_anonymous_caller_owns_no_memories(live: LiveNode, user: str) -> None:
    head = live.node.log.head().position
    answer = post(live, "Ann likes tea", user_id=user)
    body = answer.json()
    assert (answer.status_code, body["stored"], body["memoriesCount"]) == (200, False, 0)
    assert "owns no memories" in body["error"]
    assert live.node.log.head().position == head


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"weather": "rain"}, "weather"),
        ({"source": "user:bo"}, "source"),  # in addition to user_id
        ({"memory_type": "guess"}, "memory_type"),
        ({"emotion_score": 6}, "emotion_score"),
        ({"confidence": 0}, "confidence"),
        ({"supersede": "no"}, "supersede"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["x" * 100] * 20, "keywords": "y" * 100}, "keywords"),
    ],
)
def test_contradictory_fields_are_refused_by_name(
    live: LiveNode, fields: dict[str, Any], field: str
) -> None:
    answer = post(live, "Ann likes tea", **fields)
    assert answer.status_code == 422, answer.text
    assert field in answer.text


def test_a_key_stores_for_itself_and_for_its_sources(live: LiveNode) -> None:
    key = live.mint("read", "write", entity="user:cy", sources=[])
    own = store(live, "Cy keeps bees", key)
    assert (own["fact"]["source"], own["fact"]["entity"]) == ("user:cy", "user:cy")
    answer = post(live, "Ann keeps bees", key, user_id="ann")
    assert (answer.status_code, answer.json()["detail"]["code"]) == (403, "source_forbidden")
    answer = post(live, "Cy is the owner", key, trust=2)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (403, "attribute_forbidden")
    reader = live.mint("read", entity="user:di", sources=[])
    assert post(live, "Di reads", reader).status_code == 403


# -- repetitions ---------------------------------------------------------------------------


def test_the_same_words_count_once_a_minute(timed: LiveNode, clock: FixedClock) -> None:
    first = store(timed, "Ann likes tea")
    clock.advance(60 * SECOND_US)
    again = skipped(timed, " Ann likes tea ", topic="drinks")
    assert (again["error"], again["id"]) == (DUPLICATE, first["id"])
    assert again["position"] == first["position"]
    clock.advance(1)  # a microsecond more than a minute
    assert store(timed, "Ann likes tea", topic="drinks")["id"] != first["id"]


def test_an_equal_live_memory_is_the_answer_at_any_age(timed: LiveNode, clock: FixedClock) -> None:
    first = store(timed, "Ann likes tea")
    clock.advance(3_600 * SECOND_US)
    again = skipped(timed, "Ann likes tea")
    assert (again["error"], again["id"]) == (DUPLICATE, first["id"])


def test_another_owner_place_or_an_ended_memory_is_no_duplicate(live: LiveNode) -> None:
    first = store(live, "Ann likes tea")
    store(live, "Ann likes tea", user_id="bo")
    store(live, "Ann likes tea", scope="team")
    assert live.call("POST", f"/v1/facts/{first['id']}/retract").status_code == 200
    assert store(live, "Ann likes tea")["id"] != first["id"]


def test_of_stores_at_once_one_is_new(live: LiveNode) -> None:
    def once(number: int) -> tuple[int, str]:
        # Of different attributes: as facts, each would be new.
        answer = post(live, "Ann likes tea", topic=f"t{number}")
        return answer.status_code, answer.json()["id"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(once, range(16)))
    assert sorted(status for status, _ in answers) == [200] * 15 + [201]
    assert len({fact for _, fact in answers}) == 1
    assert live.node.reader.pin().count == 1


def test_a_repeated_request_gets_the_first_answer(live: LiveNode) -> None:
    def ask(content: str, name: str) -> Any:
        body = {"content": content, "user_id": "ann", "topic": "work"}
        return live.call("POST", "/v1/memories", json=body, headers={"Idempotency-Key": name})

    old = ask("Ann uses vim for editing", "one").json()
    first = ask("Ann no longer uses vim", "two")
    again = ask("Ann no longer uses vim", "two")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["superseded"] == first.json()["superseded"] == [old["id"]]
    same = ask("Ann no longer uses vim", "three")
    repeated = ask("Ann no longer uses vim", "three")
    assert (same.status_code, repeated.status_code) == (200, 200)
    assert repeated.json() == same.json()


def test_a_repeated_refusal_is_a_refusal(live: LiveNode) -> None:
    owner = live.mint("read", "write", entity="user:owner", sources=["user:owner"])
    store(live, "The code is 7", owner, classification=2, scope="team")
    for _ in range(2):  # too confidential for its scope because of the earlier fact
        answer = live.call(
            "POST",
            "/v1/memories",
            key=owner,
            json={"content": "The code is 7", "scope": "company"},
            headers={"Idempotency-Key": "one"},
        )
        assert answer.status_code == 422
        assert answer.json()["detail"]["code"] == "classification_misplaced"


# -- classification -----------------------------------------------------------------------


@pytest.fixture
def owner(live: LiveNode) -> str:
    return live.mint("read", "write", entity="user:owner", sources=["user:owner"])


@pytest.fixture
def other(live: LiveNode) -> str:
    return live.mint("read", "write", entity="user:other", sources=["user:owner", "user:other"])


def test_equal_words_never_get_a_lower_classification(live: LiveNode, owner: str) -> None:
    store(live, "The code is 7", owner, classification=2, scope="team")
    said = store(live, "The code is 7", owner, scope="local")
    assert (said["classification"], said["fact"]["attributes"]["classification"]) == (2, 2)
    answer = post(live, "The code is 7", owner, scope="company")
    assert answer.status_code == 422
    assert answer.json()["detail"]["code"] == "classification_misplaced"


def test_a_repetition_with_a_higher_classification_raises_it(
    live: LiveNode, owner: str, other: str
) -> None:
    first = store(live, "The code is 7", owner)
    assert live.call("GET", f"/v1/facts/{first['id']}", key=other).status_code == 200
    again = skipped(live, "The code is 7", owner, classification=3)
    assert (again["id"], again["classification"], again["error"]) == (first["id"], 3, DUPLICATE)
    assert live.call("GET", f"/v1/facts/{first['id']}", key=other).status_code == 404
    lower = skipped(live, "The code is 7", owner, classification=0)
    assert lower["classification"] == 3


def test_unreadable_facts_change_no_answer(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    """The same requests, on a node with the owner's confidential memories and on one without."""
    told: list[list[tuple[int, Any]]] = []
    texts = ("Ann uses vim for editing", "The code is 7")
    for hidden in (True, False):
        live = serve(clock=FixedClock(START_US))
        owner = live.mint("read", "write", entity="user:owner", sources=["user:owner"])
        other = live.mint(
            "read", "write", entity="user:other", sources=["user:owner", "user:other"]
        )
        if hidden:
            for text in texts:
                store(live, text, owner, scope="team", classification=2, topic="work")
        asked = (
            ("The code is 7", {"source": "user:owner"}),
            ("The code is 7", {"source": "user:other"}),
            ("Ann no longer uses vim", {"source": "user:owner"}),
            ("The code is 7", {"source": "user:owner"}),
        )
        answers = [
            post(live, text, other, scope="team", topic="work", **fields) for text, fields in asked
        ]
        told.append([(each.status_code, _open(each.json())) for each in answers])
    assert told[0] == told[1]
    assert [status for status, _ in told[0]] == [201, 201, 201, 200]


def test_a_key_that_only_writes_learns_of_nothing(live: LiveNode, owner: str) -> None:
    old = store(live, "Ann uses vim for editing", owner, topic="work")
    key = live.mint("write", entity="agent:blind", sources=["user:owner", "user:blind"])
    for reader, seen in ((key, 0), (live.mint("read", "write", entity="agent:sees"), 1)):
        name = {"source": f"user:{'blind' if reader == key else 'sees'}"}
        equal = store(live, "Ann uses vim for editing", reader, classification=0, **name)
        assert equal["classification"] == seen
    new = store(live, "Ann no longer uses vim", key, source="user:owner", topic="work")
    assert new["superseded"] == []
    assert merge(live, old["id"], new["id"], key=key).status_code == 404


def test_an_answer_does_not_name_a_confidential_memory_that_ended_another(
    live: LiveNode, owner: str
) -> None:
    old = store(live, "Ann uses vim for editing", owner, topic="work")
    new = store(live, "Ann no longer uses vim", owner, topic="work", classification=2)
    assert new["superseded"] == [old["id"]]
    event = live.node.log.read(live.node.log.head().position - 1, 1)[0]
    assert event.payload.reason == "superseded by a confidential memory"  # type: ignore[union-attr]
    assert event.header.causation_id is None
    life = live.call("GET", f"/v1/time-travel/facts/{old['id']}")
    assert (life.status_code, new["id"] in life.text) == (200, False)
    assert "superseded by a confidential memory" in life.text


def _open(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the parts that differ between nodes."""
    kept = {name: answer.get(name) for name in ("stored", "memoriesCount", "error", "superseded")}
    attributes = (answer.get("fact") or {}).get("attributes")
    return kept | {"class": answer["classification"], "attributes": attributes}


# -- changes -------------------------------------------------------------------------------


def test_a_memory_about_a_change_ends_the_old_one(live: LiveNode) -> None:
    old = store(live, "Ann uses PostgreSQL at work", topic="databases")
    other = store(live, "Ann uses SQLite at home", topic="databases")
    elsewhere = store(live, "Ann uses PostgreSQL at school", topic="schools")
    before = live.node.log.head().position
    new = store(live, "Ann no longer uses PostgreSQL", topic="databases")
    # ann, uses, postgresql; of the second ann and uses; the third has another topic
    assert set(new["superseded"]) == {old["id"], other["id"]}
    assert living(live) == {"Ann uses PostgreSQL at school", "Ann no longer uses PostgreSQL"}
    assert old["fact"]["value"]["v"] in living(live, as_of=f"position:{before}")
    events = live.node.log.read(before, 10)
    assert [event.header.kind for event in events] == ["fact_asserted", "fact_retracted"]
    assert events[1].header.causation_id == events[0].event_id
    assert events[1].payload.reason == f"superseded by {new['id']}"  # type: ignore[union-attr]
    assert elsewhere["id"] not in new["superseded"]


@pytest.mark.parametrize(
    ("text", "fields", "ends"),
    [
        ("Ann stopped drinking green tea", {}, True),
        ("Ann switched from green tea to coffee", {}, True),
        ("Coffee replaced green tea", {}, True),
        ("Coffee instead of green tea", {}, True),
        ("It was wrong: green tea", {}, True),
        ("Actually green tea", {}, True),
        ("Do not use green tea", {}, True),
        ("Ann enjoys green tea", {}, False),  # no marker
        ("Notable users of green tea", {}, False),  # a marker is whole words
        ("Actually tea", {}, False),  # one shared word
        ("Actually this is the tea", {}, False),  # this, is, the: stop-words
        ("Actually green tea", {"topic": "general"}, False),
        ("Actually green tea", {"supersede": False}, False),
        ("Actually green tea", {"user_id": "bo"}, False),
        ("Actually green tea", {"scope": "team"}, False),
    ],
)
def test_markers_shared_words_topic_and_owner_decide(
    live: LiveNode, text: str, fields: dict[str, Any], ends: bool
) -> None:
    old = store(live, "This is the green tea of Bo", topic="drinks")
    new = store(live, text, **({"topic": "drinks"} | fields))
    assert new["superseded"] == ([old["id"]] if ends else [])


def test_only_the_twenty_newest_of_a_topic_are_compared(live: LiveNode) -> None:
    ids = [store(live, f"green tea number {n}", topic="drinks")["id"] for n in range(21)]
    new = store(live, "no longer green tea", topic="drinks")
    assert set(new["superseded"]) == set(ids[1:])


# -- merging ------------------------------------------------------------------------------


def recalled(live: LiveNode, fact: str, *instants: int) -> None:
    use = RecallUse(fact, len(instants), instants[-1], tuple(instants[:-1]))
    live.node.write(RecallServed(uses=[use]))


def merge(live: LiveNode, *ids: str, key: str | None = None, once: str = "") -> Any:
    headers = {"Idempotency-Key": once} if once else {}
    return live.call("POST", "/v1/memories/merge", key=key, json={"ids": ids}, headers=headers)


def recalls(live: LiveNode, fact: str, position: int | None = None) -> tuple[int, tuple[int, ...]]:
    """The number of a fact's recalls by a position, and the last instants."""
    view = live.node.reader.pin()
    moment = Moment(view.position if position is None else position, 0)
    slots = np.array([live.node.reader.slot_of(fact)], dtype=np.int32)
    return int(view.access_count(slots, moment)[0]), view.recall_times(slots, moment)[0]


def test_a_merge_sums_recalls_and_keeps_the_best_of_both(live: LiveNode) -> None:
    """abmind's case 22, confidence 1 to 5 being 1 + 4c: old 4, new 2."""
    old = store(live, "Ann likes tea", relevance=20, confidence=0.75)
    new = store(live, "Ann likes green tea", relevance=10, confidence=0.25)
    recalled(live, old["id"], 100, 200, 300, 400, 500)
    recalled(live, new["id"], 150, 250, 350)
    before = live.node.log.head().position
    answer = merge(live, old["id"], new["id"])
    assert answer.status_code == 200, answer.text
    merged = convert(answer.json(), MergedMemories)
    assert (merged.restated, merged.recall_count) == (True, 8)
    assert merged.ended == [old["id"], new["id"]]
    fact = answer.json()["fact"]
    assert fact["value"]["v"] == "Ann likes green tea"
    assert (fact["confidence"], fact["attributes"]["relevance"]) == (0.75, 20)
    assert fact["attributes"]["integrity"] == 3
    assert {each["fact_id"] for each in fact["derived_from"]} == {old["id"], new["id"]}
    assert recalls(live, merged.kept) == (8, (100, 150, 200, 250, 300, 350, 400, 500))
    assert living(live) == {"Ann likes green tea"}
    assert living(live, as_of=f"position:{before}") == {"Ann likes tea", "Ann likes green tea"}


def test_the_newer_keeps_its_place_and_confidence(live: LiveNode) -> None:
    old = store(live, "Ann likes tea", relevance=20, classification=1, user_id="ann")
    new = store(live, "Ann likes green tea", classification=0, topic="drinks")
    recalled(live, old["id"], 100, 200)
    recalled(live, new["id"], 150)
    live.node.write(FactFeedback(cited=[old["id"]], rejected=[new["id"]]))
    before = live.node.log.head().position
    answer = merge(live, new["id"], old["id"]).json()  # in either order
    assert (answer["kept"], answer["ended"], answer["restated"]) == (new["id"], [old["id"]], False)
    attributes = answer["fact"]["attributes"]
    assert (attributes["relevance"], attributes["integrity"]) == (20, 3)
    assert (attributes["classification"], attributes["topic"]) == (1, "drinks")
    assert recalls(live, new["id"]) == (3, (100, 150, 200))
    assert recalls(live, new["id"], before) == (1, (150,))
    view = live.node.reader.pin()
    slots = np.array([live.node.reader.slot_of(new["id"])], dtype=np.int32)
    cited, rejected = view.feedback(slots, Moment(view.position, 0))
    assert (int(cited[0]), int(rejected[0])) == (1, 1)
    then = shown(live, new["id"], as_of=f"position:{before}")
    assert (then["attributes"]["integrity"], then["attributes"]["relevance"]) == (2, 0)
    events = live.node.log.read(before, 10)
    kinds = [event.header.kind for event in events]
    assert kinds == ["memories_merged", "fact_attributes_set", "fact_retracted"]
    assert {event.header.causation_id for event in events[1:]} == {events[0].event_id}
    assert events[2].payload.reason == f"merged into {new['id']}"  # type: ignore[union-attr]


def test_a_merge_keeps_the_last_twenty_recalls_of_both(live: LiveNode) -> None:
    old, new = store(live, "Ann likes tea"), store(live, "Ann likes green tea")
    recalled(live, old["id"], *range(0, 20))
    recalled(live, new["id"], *range(15, 30))
    merge(live, old["id"], new["id"])
    # Of 0..19 and 15..29 the last twenty: 15..19 twice, 20..29 once.
    expected = tuple(sorted([*range(15, 20), *range(15, 30)]))
    assert recalls(live, new["id"]) == (35, expected)


def test_a_rebuild_and_a_restart_keep_the_results_of_merges(live: LiveNode, tmp_path: Path) -> None:
    old = store(live, "Ann likes tea", relevance=20, confidence=0.75)
    new = store(live, "Ann likes green tea", confidence=0.25)
    third = store(live, "Ann uses vim for editing", topic="work")
    store(live, "Ann no longer uses vim", topic="work")
    recalled(live, old["id"], 100, 200)
    live.node.write(FactFeedback(cited=[old["id"]]))
    kept = merge(live, old["id"], new["id"]).json()["kept"]
    before = live.node.reader.digests()
    live.node.rebuild()
    assert live.node.reader.digests() == before
    assert third["fact"]["value"]["v"] not in living(live)
    live.close()
    with closing(Node.open(tmp_path / "data")) as node:  # loads the memory image from the tables
        view = node.reader.pin()
        slots = np.array([node.reader.slot_of(kept)], dtype=np.int32)
        moment = Moment(view.position, 0)
        assert int(view.access_count(slots, moment)[0]) == 2
        assert view.recall_times(slots, moment) == [(100, 200)]
        assert int(view.feedback(slots, moment)[0][0]) == 1


def test_recalls_that_are_not_in_the_log_yet_count(live: LiveNode) -> None:
    old, new = store(live, "Ann likes tea"), store(live, "Ann drinks milk")
    asked = {"query": "tea", "translated": ["tea"], "profile": "abmind", "stages": ["Sf"]}
    assert len(live.call("POST", "/v1/recall", json=asked).json()["results"]) == 1
    assert merge(live, old["id"], new["id"]).json()["recall_count"] == 1


def test_impossible_merges_are_refused(live: LiveNode) -> None:
    mine, yours = store(live, "Ann likes tea"), store(live, "Bo likes tea", user_id="bo")
    away = store(live, "Ann likes milk", scope="team")
    head = live.node.log.head().position
    for ids in ((mine["id"], yours["id"]), (mine["id"], away["id"])):
        answer = merge(live, *ids)
        assert (answer.status_code, answer.json()["detail"]["code"]) == (422, "memories_apart")
    assert merge(live, mine["id"], mine["id"]).status_code == 422
    assert merge(live, mine["id"]).status_code == 422
    assert merge(live, mine["id"], "no-such-fact").status_code == 404
    key = live.mint("read", "write", entity="user:cy", sources=[])
    second = store(live, "Ann likes juice")
    answer = merge(live, mine["id"], second["id"], key=key)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (403, "source_forbidden")
    assert merge(live, mine["id"], second["id"]).status_code == 200
    answer = merge(live, mine["id"], second["id"])
    assert (answer.status_code, answer.json()["detail"]["code"]) == (409, "fact_already_retracted")
    assert live.node.log.head().position > head


def test_a_confidential_memory_of_another_key_is_absent_to_a_merge(
    live: LiveNode, owner: str, other: str
) -> None:
    secret = store(live, "The code is 7", owner, classification=2)
    public = store(live, "The code is long", owner)
    hidden = merge(live, secret["id"], public["id"], key=other)
    absent = merge(live, "no-such-fact", public["id"], key=other)
    assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
    merged = merge(live, secret["id"], public["id"], key=owner).json()
    assert merged["fact"]["attributes"]["classification"] == 2


def test_a_repeated_merge_gets_the_first_answer(live: LiveNode) -> None:
    old, new = store(live, "Ann likes tea"), store(live, "Ann likes green tea")
    first = merge(live, old["id"], new["id"], once="merge-1").json()
    head = live.node.log.head().position
    again = merge(live, old["id"], new["id"], once="merge-1").json()
    assert (again["kept"], again["ended"]) == (first["kept"], first["ended"])
    assert live.node.log.head().position == head


def test_relevance_moves_by_steps_within_its_bounds(live: LiveNode) -> None:
    fact = store(live, "Ann likes tea", relevance=990)["id"]

    def patch(**body: Any) -> Any:
        return live.call("PATCH", f"/v1/facts/{fact}/attributes", json=body)

    for change, expected in ((10, 1000), (10, 1000), (-20, 980)):
        answer = patch(relevance_change=change)
        assert answer.json()["fact"]["attributes"]["relevance"] == expected
    assert patch(relevance_change=5).status_code == 422
    assert patch(relevance_change=10, relevance=20).status_code == 422
