"""Feedback on recalls over HTTP: by ids, by the answer's text, and its refusals."""

from typing import Any

import numpy as np
from msgspec import convert

from engramlog.api.routes.recall.feedback import FeedbackTaken
from tests.worlds.live import FACT_NOT_FOUND, LiveNode

ATLAS = "stigmem://t.example/project/atlas"


def recall(live: LiveNode, key: str | None = None, **body: Any) -> dict[str, Any]:
    asked = {"query": "atlas billing", "scope": "company", **body}
    answer = live.call("POST", "/v1/recall", json=asked, key=key)
    assert answer.status_code == 200, answer.text
    return answer.json()


def give(live: LiveNode, key: str | None = None, **body: Any) -> Any:
    return live.call("POST", "/v1/recall/feedback", json=body, key=key)


def counts(live: LiveNode, fact: str) -> tuple[int, int]:
    view = live.node.reader.pin()
    slots = np.array([live.node.reader.slot_of(fact)], dtype=np.int32)
    cited, rejected = view.feedback(slots, live.node.moment())
    return int(cited[0]), int(rejected[0])


def test_named_facts_count_once_a_recall(live: LiveNode) -> None:
    one = live.state(entity=ATLAS, relation="memory:owner", v="billing team")["id"]
    two = live.state(entity=ATLAS, relation="memory:note", v="billing moved")["id"]
    receipt = recall(live)["receipt_id"]
    answer = give(live, receipt_id=receipt, cited=[one], rejected=[two])
    assert answer.status_code == 200, answer.text
    convert(answer.json(), FeedbackTaken)
    assert answer.json() == {
        "cited": [one],
        "rejected": [two],
        "position": live.node.log.head().position,
    }
    again = give(live, receipt_id=receipt, cited=[one], rejected=[two])
    assert again.json()["position"] is None
    assert (counts(live, one), counts(live, two)) == ((1, 0), (0, 1))
    assert give(live, receipt_id=recall(live)["receipt_id"], cited=[one]).status_code == 200
    assert give(live, cited=[one, one]).status_code == 200
    assert counts(live, one) == (3, 0)
    assert give(live, rejected=[two]).json()["position"] == live.node.log.head().position
    assert counts(live, two) == (0, 2)


def test_the_answers_text_shows_the_cited_facts(live: LiveNode) -> None:
    long = "the billing service of atlas moved to Frankfurt"
    used = live.state(entity=ATLAS, relation="memory:note", v=long, type="text")["id"]
    unused = live.state(entity=ATLAS, relation="memory:owner", v="billing team")["id"]
    receipt = recall(live)["receipt_id"]
    told = give(live, receipt_id=receipt, answer=f"I read that {long}, so yes.", rejected=[unused])
    assert told.json()["cited"] == [used]
    assert (counts(live, used), counts(live, unused)) == ((1, 0), (0, 1))
    assert give(live, receipt_id=receipt, answer="Nothing of it helped.").json()["cited"] == []


def test_only_readable_returned_facts_count(live: LiveNode) -> None:
    hidden = live.state(entity=ATLAS, relation="memory:plan", v="billing", scope="team")["id"]
    shown = live.state(entity=ATLAS, relation="memory:owner", v="billing team")["id"]
    other = live.state(relation="memory:role", v="nobody")["id"]
    narrow = live.mint("read", "write", scopes=["company"])
    for fact in (hidden, "01890000-0000-7000-8000-000000000000"):
        answer = give(live, narrow, cited=[shown, fact])
        assert (answer.status_code, answer.json()) == FACT_NOT_FOUND
    receipt = recall(live, narrow, limit=1)["receipt_id"]
    answer = give(live, narrow, receipt_id=receipt, rejected=[other])
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "rejected", 0]
    stranger = live.mint("read", "write", entity="agent:stranger")
    assert give(live, stranger, receipt_id=receipt, cited=[shown]).status_code == 404
    reader = live.mint("read", entity="agent:reader")
    assert give(live, reader, cited=[shown]).status_code == 403
    assert counts(live, shown) == (0, 0)


def test_bad_feedback_names_its_field(live: LiveNode) -> None:
    bodies: list[dict[str, Any]] = [
        {},
        {"answer": "text"},
        {"receipt_id": "r", "answer": "text", "cited": ["f"]},
        {"cited": ["f"], "colour": 1},
        {"cited": "f"},
        {"cited": [""]},
        {"cited": ["f"] * 501},
    ]
    for body in bodies:
        assert give(live, **body).status_code == 422, body
