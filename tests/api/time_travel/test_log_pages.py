"""The log over HTTP: the subject of each event, filters for rare events, and the past."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

Serve = Callable[..., LiveNode]


def page(live: LiveNode, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", "/v1/log", key=CONTROL_TOKEN, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_recall_is_about_its_question_and_not_about_a_fact_it_returned(live: LiveNode) -> None:
    many = [fact(v=f"the tea {n}", relation=f"memory:r{n}") for n in range(30)]
    live.call("POST", "/v1/facts/batch", key=CONTROL_TOKEN, json=many)
    body = {"query": "who keeps the tea", "scope": "company", "token_budget": 5000}
    live.call("POST", "/v1/recall", key=CONTROL_TOKEN, json=body)
    live.run(live.app_tracker().flush())
    [asked] = page(live, kind="recall_answered")["events"]
    assert (asked["about"], asked["entity"], asked["relation"]) == ("who keeps the tea", None, None)
    assert asked["facts"] == 30
    assert len(asked["fact_ids"]) == 20, "a page names the first"
    path = f"/v1/log/{asked['position']}"
    whole = live.call("GET", path, key=CONTROL_TOKEN).json()
    assert len(whole["event"]["fact_ids"]) == 30
    assert whole["payload"]["query"] == "who keeps the tea"
    [served] = page(live, kind="recall_served")["events"]
    assert (served["about"], served["entity"]) == ("30 facts returned by recalls", None)
    stated = page(live, kind="fact_asserted", limit=1)["events"][0]
    assert (stated["about"], stated["relation"], stated["facts"]) == (None, "memory:r29", 1)


def test_a_rare_kind_is_found_without_reading_the_others(live: LiveNode, monkeypatch: Any) -> None:
    live.call("PUT", "/v1/relations/set-valued", key=CONTROL_TOKEN, json={"relations": ["rel:to"]})
    many = [fact(v=str(n), relation=f"memory:r{n}") for n in range(50)]
    live.call("POST", "/v1/facts/batch", key=CONTROL_TOKEN, json=many)
    read: list[int] = []
    log = live.node.log
    plain = log.read

    def counted(after: int = 0, limit: int = 1000) -> Any:
        events = plain(after, limit)
        read.append(len(events))
        return events

    monkeypatch.setattr(log, "read", counted)
    found = page(live, kind="set_valued_declared")
    assert [each["about"] for each in found["events"]] == ["rel:to"]
    assert found["next_before"] is None
    assert sum(read) <= 2
    both = page(live, kind="fact_asserted", limit=20)
    rest = page(live, kind="fact_asserted", before=both["next_before"])
    positions = [each["position"] for each in (*both["events"], *rest["events"])]
    assert positions == sorted(positions, reverse=True)
    assert len(positions) == 50
    assert page(live, actor="agent:nobody")["events"] == []


def test_the_past_ends_at_its_moment(live: LiveNode) -> None:
    first = live.state(v="one", key=CONTROL_TOKEN)
    live.state(v="two", relation="memory:task", key=CONTROL_TOKEN)
    past = page(live, as_of=f"position:{first['position']}", limit=1)
    assert past["head"] == first["position"] == past["events"][0]["position"]


@pytest.mark.parametrize("before", ["position:0", "2000-01-01T00:00:00Z"])
def test_before_the_first_event_there_was_none(live: LiveNode, before: str) -> None:
    live.state()
    for name in ("kind", "stream", "actor", "peer"):
        params = {"as_of": before, name: "fact_asserted"}
        listed = live.call("GET", "/v1/log", key=CONTROL_TOKEN, params=params)
        assert (listed.status_code, listed.json()["events"]) == (200, []), listed.text
    body = {"sql": "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM facts)"}
    path = "/v1/time-travel/sql"
    counted = live.call("POST", path, key=CONTROL_TOKEN, json=body | {"as_of": before})
    assert counted.json()["rows"] == [[0, 0]], counted.text


def test_rows_of_facts_that_a_caller_may_not_read_are_not_counted(live: LiveNode) -> None:
    here = {"key": CONTROL_TOKEN, "scope": "team"}
    live.state(v="for all", **here)
    live.state(v="kept", attributes={"classification": 2}, **here)
    live.state(v="none of it", confidence=0.0, **here)
    [ended] = page(live, kind="fact_retracted")["events"]
    reader = live.mint("read", entity="agent:reader")

    def rows(key: str) -> dict[str, int]:
        path = f"/v1/log/{ended['position']}"
        answer = live.call("GET", path, key=key).json()
        return {each["projection"]: each["changed"] for each in answer["read_by"]}

    assert (rows(CONTROL_TOKEN)["facts"], rows(reader)["facts"]) == (2, 1)
    assert rows(CONTROL_TOKEN)["fact_retractions"] == 2
    assert rows(reader)["fact_retractions"] == 1


def test_a_path_leads_from_the_cause_to_what_followed(live: LiveNode) -> None:
    live.state(v="one", source="agent:a", key=CONTROL_TOKEN)
    live.state(v="two", source="agent:b", key=CONTROL_TOKEN)
    [conflict] = live.call("GET", "/v1/conflicts", key=CONTROL_TOKEN).json()["conflicts"]
    body = {"winning_fact_id": conflict["fact_a"]["id"]}
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    assert live.call("POST", path, key=CONTROL_TOKEN, json=body).status_code == 200
    [resolved] = page(live, kind="conflict_resolved")["events"]
    shown = live.call("GET", f"/v1/log/{resolved['position']}", key=CONTROL_TOKEN).json()
    ends = shown["causes"] + shown["consequences"]
    assert ends
    for other in ends:
        back = live.call("GET", f"/v1/log/{other['position']}", key=CONTROL_TOKEN).json()
        named = {each["position"] for each in back["causes"] + back["consequences"]}
        assert resolved["position"] in named


def test_a_chain_shows_all_that_followed_from_its_first_cause(live: LiveNode) -> None:
    """From each of its events: itself, its causes and consequences, and what lies beside."""
    for text in ("\n\n".join(f"the plan has a part {n}" for n in range(80)), "another plan"):
        body = {"summaries": [{"name": "weekly/weekly_2026-W25.md", "text": text}]}
        answer = live.call("POST", "/v1/summaries", key=CONTROL_TOKEN, json=body)
        assert answer.status_code in (200, 201), answer.text
    events = page(live, limit=500)["events"]
    caused = [each for each in events if each["causation_id"] is not None]
    assert len(caused) >= 80
    first = {each["event_id"]: each["position"] for each in events}
    for some in (caused[0], caused[len(caused) // 2], caused[-1]):
        path = f"/v1/log/{some['position']}"
        shown = live.call("GET", path, key=CONTROL_TOKEN).json()
        parts = [shown["causes"], [shown["event"]], shown["consequences"], shown["related"]]
        assert shown["causes"][0]["position"] == first[shown["correlation_id"]]
        chain = sorted(each["position"] for part in parts for each in part)
        assert chain == sorted(set(chain))
        root = live.call("GET", f"/v1/log/{first[shown['correlation_id']]}", key=CONTROL_TOKEN)
        whole = root.json()
        assert whole["related"] == [] == whole["causes"]
        assert whole["correlation_id"] == shown["correlation_id"]
        assert chain == [each["position"] for each in (whole["event"], *whole["consequences"])]
