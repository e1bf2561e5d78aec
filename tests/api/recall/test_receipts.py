"""Receipts of recalls: their owners and content, found before and after they are logged, and
replayed."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.commands.recall.answering import answered
from engramlog.api.commands.recall.receipts import Receipt, ReceiptPage, ReplayedRecall
from engramlog.api.routes.recall import recall as recall_route
from engramlog.eventlog.kinds import RecallAnswered
from engramlog.projections.recall.answer import Compared, RankedFact, compare
from tests.worlds.data_files import files_with
from tests.worlds.lagging_nodes import seen, two_nodes
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

ATLAS = "stigmem://t.example/project/atlas"


def recall(live: LiveNode, key: str | None = None, **body: Any) -> dict[str, Any]:
    asked = {"query": "atlas billing owner", "scope": "company", **body}
    answer = live.call("POST", "/v1/recall", json=asked, key=key)
    assert answer.status_code == 200, answer.text
    return answer.json()


def receipt(live: LiveNode, receipt_id: str, key: str | None = None) -> dict[str, Any]:
    answer = live.call("GET", f"/v1/recall/receipts/{receipt_id}", key=key)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), Receipt)
    return answer.json()


def replay(live: LiveNode, receipt_id: str, key: str | None = None) -> dict[str, Any]:
    answer = live.call("POST", f"/v1/recall/receipts/{receipt_id}/replay", key=key)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), ReplayedRecall)
    return answer.json()


def receipts(live: LiveNode, key: str | None = None, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = dict(given)
    while True:
        answer = live.call("GET", "/v1/recall/receipts", params=query, key=key)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        convert(page, ReceiptPage)
        found += page["receipts"]
        if page["cursor"] is None:
            return found
        query["cursor"] = page["cursor"]


def test_a_receipt_has_the_question_and_the_answer(live: LiveNode) -> None:
    live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    live.state(entity=ATLAS, relation="memory:note", v="owner is on leave")
    answer = recall(live, limit=1, min_confidence=0.2)
    before = receipt(live, answer["receipt_id"])
    assert before["position"] is None
    assert before["query"] == "atlas billing owner"
    assert before["request"] == {"scope": "company", "limit": 1, "min_confidence": 0.2}
    assert before["principal"] == "anon:trusted"
    assert before["moment"]["position"] == answer["moment"]["position"]
    assert before["returned"] == [
        {
            "fact_id": answer["facts"][0]["fact"]["id"],
            "rank": 1,
            "score": answer["facts"][0]["score"],
            "from_card": False,
        }
    ]
    assert before["counted"] is True
    assert before["truncated"] is answer["truncated"] is True
    live.run(live.app_tracker().flush())
    after = receipt(live, answer["receipt_id"])
    assert after.pop("position") == live.node.log.head().position
    assert after == {name: value for name, value in before.items() if name != "position"}


def test_untracked_and_past_questions_leave_receipts_that_do_not_count(live: LiveNode) -> None:
    live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    untracked: dict[str, Any] = {"track": False}
    past: dict[str, Any] = {"as_of": f"position:{live.node.log.head().position}"}
    for extra in (untracked, past):
        found = receipt(live, recall(live, **extra)["receipt_id"])
        assert found["counted"] is False
        assert len(found["returned"]) == 1
    assert live.app_tracker().pending == 0


def test_receipts_are_their_owners_and_the_auditors(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    ann, bob = live.key_of("ann"), live.key_of("bob")
    auditor = live.mint("read", "audit.read", entity="agent:auditor")
    live.state(entity=ATLAS, relation="memory:owner", v="billing team", key=ann)
    mine = recall(live, ann)["receipt_id"]
    theirs = recall(live, bob)["receipt_id"]
    for logged in (False, True):
        if logged:
            live.run(live.app_tracker().flush())
        refused = live.call("GET", f"/v1/recall/receipts/{mine}", key=bob)
        absent = live.call("GET", "/v1/recall/receipts/nothing-like-it", key=bob)
        assert (refused.status_code, refused.content) == (404, absent.content)
        again = live.call("POST", f"/v1/recall/receipts/{mine}/replay", key=bob)
        assert (again.status_code, again.content) == (404, absent.content)
        seen = receipt(live, mine, auditor)
        assert seen["principal"] == "agent:ann"
        assert [each["rank"] for each in seen["returned"]] == [None]
        # The inputs of a score or a total may be private to the caller.
        assert seen["returned"][0]["score"] is seen["total_scored"] is seen["tokens_used"] is None
        assert replay(live, mine, auditor)["then"]["faithful"] is None
    assert [each["receipt_id"] for each in receipts(live, bob)] == [theirs]
    assert {each["receipt_id"] for each in receipts(live, auditor)} == {mine, theirs}
    of_ann = receipts(live, auditor, principal="agent:ann")
    assert [each["receipt_id"] for each in of_ann] == [mine]
    refused = live.call("GET", "/v1/recall/receipts", params={"principal": "agent:ann"}, key=bob)
    assert refused.status_code == 403
    assert refused.json()["detail"]["code"] == "receipts_of_others"


def test_a_receipt_that_names_a_garden_is_for_those_who_know_the_garden(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    ann = live.key_of("ann")
    live.call("POST", "/v1/gardens", key=ann, json={"slug": "ops", "name": "Ops"})
    live.state(entity=ATLAS, v="billing team", garden_id="ops", key=ann, source="agent:ann")
    mine = recall(live, ann, garden_id="ops")["receipt_id"]
    auditor = live.mint("read", "audit.read", entity="agent:auditor")
    path = f"/v1/recall/receipts/{mine}"
    for logged in (False, True):
        if logged:
            live.run(live.app_tracker().flush())
        assert live.call("GET", path, key=auditor).status_code == 404
        assert live.call("POST", f"{path}/replay", key=auditor).status_code == 404
        for key in (ann, CONTROL_TOKEN):
            assert receipt(live, mine, key)["request"]["garden_id"] == "ops"
    assert receipts(live, auditor) == []
    joined = {"entity_uri": "agent:auditor", "role": "reader"}
    live.call("POST", "/v1/gardens/ops/members", key=ann, json=joined)
    assert [each["receipt_id"] for each in receipts(live, auditor)] == [mine]
    assert live.call("DELETE", "/v1/gardens/ops", key=ann).status_code == 204
    assert receipts(live, auditor) == []
    for key in (ann, CONTROL_TOKEN):
        assert [each["receipt_id"] for each in receipts(live, key)] == [mine]


def test_the_list_is_walked_newest_first_without_gaps(live: LiveNode) -> None:
    live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    asked = [recall(live, query=f"atlas {n}")["receipt_id"] for n in range(7)]
    assert [each["receipt_id"] for each in receipts(live, limit=3)] == asked[::-1]
    wrong = live.call("GET", "/v1/recall/receipts", params={"cursor": "AAAA"})
    assert wrong.json()["detail"]["code"] == "invalid_cursor"


def logged(live: LiveNode) -> list[RecallAnswered]:
    """The receipts in the log, in its order."""
    payloads = [event.payload for event in live.node.log.read(0, 1_000)]
    return [each for each in payloads if isinstance(each, RecallAnswered)]


def test_flushes_at_once_write_each_receipt_once(live: LiveNode) -> None:
    live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    asked = {recall(live, query=f"atlas {n}")["receipt_id"] for n in range(5)}
    tracker = live.app_tracker()

    async def at_once() -> None:
        given_up = asyncio.create_task(tracker.flush_receipts())
        await asyncio.sleep(0)
        given_up.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await given_up
        await asyncio.gather(tracker.flush(), tracker.flush_receipts())
        assert tracker.waiting == 0  # every caller may rely on the log

    live.run(at_once())
    found = [each.receipt_id for each in logged(live)]
    assert sorted(found) == sorted(asked)


def test_an_erasure_takes_a_receipt_that_the_log_has_twice(live: LiveNode) -> None:
    """As after a flush whose acknowledgement was lost."""
    owner = live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    recall(live)
    live.run(live.app_tracker().flush())
    (first,) = logged(live)
    live.node.writer.submit([first], actor=first.principal).result()
    assert len(logged(live)) == 2
    assert [each["receipt_id"] for each in receipts(live)] == [first.receipt_id]
    position = receipt(live, first.receipt_id)["position"]
    assert position == receipts(live)[0]["position"] < live.node.log.head().position
    live.node.rebuild()
    body = {"fact_ids": [owner["id"]], "wait": True, "timeout_s": 60}
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.json()["status"] == "clean", erased.text
    assert logged(live) == receipts(live) == []
    live.node.rebuild()
    assert receipts(live) == []


def test_a_recall_under_way_when_its_fact_is_erased_leaves_nothing_in_the_files(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "zanzibar quokka"
    gone = live.state(entity=ATLAS, v=secret)["id"]
    found, go_on = threading.Event(), threading.Event()

    def held(*given: Any, **named: Any) -> RecallOutcome:
        outcome = answered(*given, **named)
        found.set()
        assert go_on.wait(60)
        return outcome

    monkeypatch.setattr(recall_route, "answered", held)
    asking = threading.Thread(target=lambda: recall(live, query=secret))
    asking.start()
    assert found.wait(60)
    erasure = {"fact_ids": [gone], "wait": True, "timeout_s": 60}
    begun = live.call("POST", "/v1/erasures", json=erasure, key=CONTROL_TOKEN).json()
    go_on.set()
    asking.join(60)
    path = f"/v1/erasures/{begun['erasure_id']}"
    until(lambda: live.call("GET", path, key=CONTROL_TOKEN).json()["status"] == "clean")
    live.node.rebuild()  # raises if it differs
    live.close()
    assert files_with(live.settings.data_dir, b"quokka") == {}


def test_a_receipt_that_waits_at_another_node_over_the_log_is_not_written(
    tmp_path: Path, postgres_url: str
) -> None:
    with two_nodes(tmp_path, postgres_url) as (first, second):
        owner = first.state(entity=ATLAS, relation="memory:owner", v="billing team")
        seen(second, first)
        recall(second)
        recall(second, query="somebody else", entity="user:nobody")
        erasure = {"fact_ids": [owner["id"]]}
        begun = first.call("POST", "/v1/erasures", json=erasure, key=CONTROL_TOKEN)
        assert begun.status_code == 202, begun.text
        second.run(second.app_tracker().flush())
        assert [each.query for each in logged(first)] == ["somebody else"]


def test_a_replay_is_faithful_and_shows_changes(live: LiveNode) -> None:
    owner = live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    note = live.state(entity=ATLAS, relation="memory:note", v="atlas billing is quiet")
    asked = recall(live)["receipt_id"]
    assert replay(live, asked)["counts"] == {"same": 2, "moved": 0, "gone": 0, "new": 0}
    live.call("POST", f"/v1/facts/{owner['id']}/retract", json={})
    new = live.state(entity=ATLAS, relation="memory:owner2", v="atlas billing owner is Bo")
    found = replay(live, asked)
    assert found["then"]["faithful"] is True
    assert found["then"]["reasons"] == []
    changes = {each["fact_id"]: each["change"] for each in found["facts"]}
    assert changes[owner["id"]] == "gone"
    assert changes[new["id"]] == "new"
    assert note["id"] in changes
    assert found["now"]["moment"]["position"] > found["then"]["moment"]["position"]
    by_id = {each["fact_id"]: each for each in found["facts"]}
    assert by_id[new["id"]]["fact"]["value"]["v"] == "atlas billing owner is Bo"
    assert by_id[new["id"]]["rank_then"] is None


def test_a_replay_has_the_entitys_card_of_then(live: LiveNode) -> None:
    """A card brings both sides of a contradiction into the answer."""
    for n in range(6):
        live.state(entity=ATLAS, relation=f"memory:note{n}", v=f"billing owner {n}")
    sides = {
        live.state(entity=ATLAS, relation="memory:seat", v=v, source=source)["id"]
        for v, source in (("Graz", "agent:a"), ("Linz", "agent:b"))
    }
    about: dict[str, Any] = {"entity": ATLAS, "token_budget": 200}
    recall(live, force_refresh=True, **about)
    asked = recall(live, **about)
    assert sides < {each["fact"]["id"] for each in asked["facts"]}
    live.state(entity=ATLAS, relation="memory:note9", v="billing owner 9")
    recall(live, force_refresh=True, **about)
    assert replay(live, asked["receipt_id"])["then"]["faithful"] is True


def test_present_rights_decide_which_facts_of_a_receipt_are_visible(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    ann = live.key_of("ann")
    made = live.call(
        "POST", "/v1/gardens", key=CONTROL_TOKEN,
        json={"slug": "secret", "name": "Secret", "scope": "company"},
    )  # fmt: skip
    assert made.status_code == 201, made.text
    garden = made.json()["id"]
    member = live.call(
        "POST", f"/v1/gardens/{garden}/members", key=CONTROL_TOKEN,
        json={"entity_uri": "agent:ann", "role": "writer"},
    )  # fmt: skip
    assert member.status_code == 201, member.text
    hidden = live.state(
        entity=ATLAS, relation="memory:owner", v="billing owner", garden_id=garden, key=ann
    )
    asked = recall(live, ann)["receipt_id"]
    assert [each["fact_id"] for each in receipt(live, asked, ann)["returned"]] == [hidden["id"]]
    gone = live.call("DELETE", f"/v1/gardens/{garden}/members/agent:ann", key=CONTROL_TOKEN)
    assert gone.status_code in (200, 204), gone.text
    assert receipt(live, asked, ann)["returned"] == []
    found = replay(live, asked, ann)
    assert found["facts"] == []
    assert found["then"]["faithful"] is False


def test_a_node_may_keep_no_receipts(serve: Callable[..., LiveNode]) -> None:
    live = serve(recall_receipts=False)
    live.state(entity=ATLAS, relation="memory:owner", v="billing team")
    assert recall(live)["receipt_id"] is None
    assert receipts(live) == []


def test_comparing_names_every_fact_of_both_answers() -> None:
    then = [RankedFact("a", 1, 0.9), RankedFact("b", 2, 0.8), RankedFact("c", 3, 0.7)]
    now = [RankedFact("a", 1, 0.95), RankedFact("d", 2, 0.85), RankedFact("b", 3, 0.8)]
    assert compare(then, now) == [
        Compared("a", "same", then[0], now[0]),
        Compared("d", "new", None, now[1]),
        Compared("b", "moved", then[1], now[2]),
        Compared("c", "gone", then[2], None),
    ]
