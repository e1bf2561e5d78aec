"""Two memories become one."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import convert

from engramlog.api.node.node import Node
from engramlog.api.routes.memory.memories import MergedMemories
from engramlog.eventlog.kinds import FactFeedback, RecallServed, RecallUse
from engramlog.projections.moment import Moment
from tests.worlds.live import LiveNode
from tests.worlds.stored_memories import living, merge, shown, store


def recalled(live: LiveNode, fact: str, *instants: int) -> None:
    use = RecallUse(fact, len(instants), instants[-1], tuple(instants[:-1]))
    live.node.write(RecallServed(uses=[use]))


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
