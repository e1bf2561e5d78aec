"""Memories over HTTP: stored, repeated and ended ones."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode
from tests.worlds.stored_memories import living, merge, post, shown, skipped, store

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
        ({"user_id": ""}, "user_id"),
        ({"user_id": "  "}, "user_id"),
        ({"memory_type": "guess"}, "memory_type"),
        ({"emotion_score": 6}, "emotion_score"),
        ({"confidence": 0}, "confidence"),
        ({"supersede": "no"}, "supersede"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["x" * 100] * 20, "keywords": "y" * 100}, "keywords"),
    ],
)
def test_contradictory_fields_are_refused_by_name(
    refusing: LiveNode, fields: dict[str, Any], field: str
) -> None:
    answer = post(refusing, "Ann likes tea", **fields)
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


def test_equal_words_never_get_a_lower_classification(live: LiveNode, owner: str) -> None:
    store(live, "The code is 7", owner, classification=2, scope="team")
    said = store(live, "The code is 7", owner, scope="local")
    assert (said["classification"], said["fact"]["attributes"]["classification"]) == (2, 2)
    answer = post(live, "The code is 7", owner, scope="company")
    assert answer.status_code == 422
    assert answer.json()["detail"]["code"] == "classification_misplaced"


def test_a_confidential_repetition_in_an_open_scope_is_refused(live: LiveNode, owner: str) -> None:
    said = store(live, "The code is 7", owner, scope="company")
    answer = post(live, "The code is 7", owner, scope="company", classification=2)
    assert answer.status_code == 422
    assert answer.json()["detail"]["code"] == "classification_misplaced"
    again = skipped(live, "The code is 7", owner, scope="company")
    assert (again["id"], again["classification"]) == (said["id"], said["classification"])


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
