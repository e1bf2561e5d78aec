"""Time travel and audit over HTTP: states, differences, lives, and SQL."""

import csv
import io
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from engramlog.eventlog.kinds import AppliedDelta, DeltaApplied, Value
from engramlog.projections.audit import lives
from engramlog.projections.writing.memory_commands import RestateBatch, RestatedFact
from tests.worlds.histories import ENTITIES, asserted
from tests.worlds.live import CONTROL_TOKEN, LiveNode

ALICE = "stigmem://t.example/user/alice"
RANGE = "/v1/time-travel/diff"


def position(live: LiveNode) -> str:
    return f"position:{live.node.log.head().position}"


def difference(live: LiveNode, start: str, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", RANGE, params={"from": start, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_difference_names_added_ended_and_decayed_facts(live: LiveNode) -> None:
    kept = live.state(v="kept", relation="tag:a")
    gone = live.state(v="gone", relation="tag:b")
    start = position(live)
    new = live.state(v="new", relation="tag:c")
    live.call("POST", f"/v1/facts/{gone['id']}/retract", json={"reason": "wrong"})
    passing = live.state(v="passing", relation="tag:d")
    live.call("POST", f"/v1/facts/{passing['id']}/retract", json={})
    found = difference(live, start)
    assert found["counts"] == {"added": 2, "retracted": 2, "decayed": 0, "resolved": 0}
    assert [each["id"] for each in found["added"]] == [new["id"], passing["id"]]
    assert [each["id"] for each in found["retracted"]] == [gone["id"], passing["id"]]
    # A retracted fact appears as it was before it ended.
    assert found["retracted"][0]["confidence"] == 1.0
    assert kept["id"] not in str(found)
    assert difference(live, start, relation="tag:c")["counts"]["added"] == 1
    assert difference(live, start, entity="user:nobody")["counts"]["added"] == 0
    assert difference(live, position(live))["counts"]["added"] == 0


def test_a_difference_of_one_kind_comes_in_pages(live: LiveNode) -> None:
    start = position(live)
    ids = [live.state(v=f"v{n}", relation=f"tag:t{n}")["id"] for n in range(5)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = difference(live, start, change="added", limit=2, **cursor)
        assert "retracted" not in page
        seen += [each["id"] for each in page["added"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
        live.state(v="later", relation="tag:later")  # not of this walk's moment
    assert seen == ids


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({}, 422, None),
        ({"from": "position:-1"}, 400, "as_of_invalid_timestamp"),
        ({"from": "position:99999"}, 400, "as_of_future"),
        ({"from": "yesterday"}, 400, "as_of_invalid_timestamp"),
        ({"from": "position:2", "to": "position:1"}, 400, "moments_reversed"),
        ({"from": "position:0", "scope": "galaxy"}, 400, None),
        ({"from": "position:0", "cursor": "forged"}, 400, "invalid_cursor"),
        ({"from": "position:0", "unknown": "1"}, 422, None),
    ],
)
def test_invalid_questions_are_refused(
    refusing: LiveNode, params: dict[str, str], status: int, code: str | None
) -> None:
    refusing.state()
    answer = refusing.call("GET", RANGE, params=params)
    assert answer.status_code == status, answer.text
    if code is not None:
        assert answer.json()["detail"]["code"] == code


def test_a_state_is_the_fact_list_of_a_moment(live: LiveNode) -> None:
    first = live.state(v="one")
    then = position(live)
    live.state(v="two")
    before = live.call("GET", "/v1/time-travel/state", params={"as_of": then}).json()
    assert [each["id"] for each in before["facts"]] == [first["id"]]
    assert before["moment"]["position"] == first["position"]
    now = live.call("GET", "/v1/time-travel/state").json()
    assert now["total"] == 2
    assert all(each["contradicted"] for each in now["facts"])


def test_the_life_of_a_fact_shows_actors_and_confidence(live: LiveNode) -> None:
    first = live.state(v="one", confidence=0.8)
    rival = live.state(v="two", confidence=0.8)
    conflict = live.call("GET", "/v1/conflicts").json()["conflicts"][0]
    live.call(
        "POST",
        f"/v1/conflicts/{conflict['conflict_id']}/resolve",
        json={"winning_fact_id": rival["id"], "resolution_note": "checked"},
    )
    live.call("POST", f"/v1/facts/{first['id']}/retract", json={"reason": "wrong"})
    life = live.call("GET", f"/v1/time-travel/facts/{first['id']}").json()
    assert [each["kind"] for each in life["events"]] == [
        "fact_asserted",
        "conflict_resolved",
        "fact_retracted",
    ]
    assert {each["actor"] for each in life["events"]} == {"anon:trusted"}
    assert life["events"][1]["winner_id"] == rival["id"]
    assert life["events"][1]["note"] == "checked"
    assert life["events"][2]["reason"] == "wrong"
    assert [(each["cause"], each["confidence"]) for each in life["belief"]] == [
        ("fact_asserted", 0.8),
        ("fact_retracted", 0.0),
    ]
    earlier = live.call(
        "GET",
        f"/v1/time-travel/facts/{first['id']}",
        params={"as_of": f"position:{first['position']}"},
    ).json()
    assert [each["kind"] for each in earlier["events"]] == ["fact_asserted"]
    whole = live.call("GET", f"/v1/time-travel/entities/{ALICE}").json()
    assert whole["facts"] == 2
    assert len(whole["events"]) == 4


@pytest.mark.parametrize("kind", ["facts", "entities"])
def test_a_life_comes_in_pages_with_or_without_recalls(live: LiveNode, kind: str) -> None:
    fact = live.state(v="plays chess", relation="memory:note")
    for _ in range(3):
        recall = {"query": "who plays chess?", "scope": "company"}
        assert live.call("POST", "/v1/recall", json=recall).json()["facts"]
        live.run(live.app_tracker().flush())
    live.call("POST", f"/v1/facts/{fact['id']}/retract", json={"reason": "wrong"})
    path = f"/v1/time-travel/{kind}/{fact['id'] if kind == 'facts' else fact['entity']}"
    moment = position(live)

    def pages(**query: object) -> list[str]:
        kinds, after, more = [], 0, True
        while more:
            asked = {**query, "after": after, "limit": 2, "as_of": moment}
            page = live.call("GET", path, key=CONTROL_TOKEN, params=asked).json()
            kinds += [event["kind"] for event in page["events"]]
            after, more = page["events"][-1]["position"], page["truncated"]
        return kinds

    told = ["recall_served", "recall_answered"] * 3
    assert pages() == ["fact_asserted", *told, "fact_retracted"]
    assert pages(only="changes") == ["fact_asserted", "fact_retracted"]
    assert pages(only="recalls") == told


@pytest.mark.parametrize("others", [0, 40])
def test_a_page_of_an_entitys_life_reads_what_it_shows(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Also with many facts in a log of little else, or few in a log of much else."""
    for n in range(20):
        fact = live.state(v=str(n), relation=f"memory:n{n}")
        live.node.write(*(asserted("user:other", f"memory:{n}-{m}") for m in range(others)))
        if n % 3 == 0:
            live.call("POST", f"/v1/facts/{fact['id']}/retract", json={})
    works: list[int] = []

    def counted(*asked: Any) -> list[lives.Touch]:
        first, last, facts = asked[1:4]
        works.append(last - first if callable(facts) else len(facts))
        return touches(*asked)

    touches = lives.touches
    monkeypatch.setattr("engramlog.api.routes.time_travel.lives.touches", counted)
    path = f"/v1/time-travel/entities/{ALICE}"
    whole = live.call("GET", path).json()
    assert len(whole["events"]) == 27
    works.clear()
    events: list[Any] = []
    stated: dict[str, Any] = {}
    more = True
    while more:
        after = events[-1]["position"] if events else 0
        page = live.call("GET", path, params={"after": after, "limit": 3}).json()
        assert page["facts"] == 20
        events += page["events"]
        stated |= {each["id"]: each for each in page["stated"]}
        more = page["truncated"]
    assert events == whole["events"]
    assert list(stated.values()) == whole["stated"]
    assert max(works[:-1]) <= (20 if others else 8)


def test_a_page_has_an_event_that_names_only_a_fact_after_the_page(live: LiveNode) -> None:
    """As when a peer's event arrives before another peer's fact."""
    added = AppliedDelta(
        delta_id="d",
        delta="add",
        user="bo",
        agent="rag",
        rule_id="r",
        source_episode_ids=[],
        promotion_us=1,
        fact_id="3",
    )
    facts = [asserted(value=Value("string", f"{n}")) for n in range(4)]
    live.node.write(asserted(), *(asserted("user:other", f"memory:{n}") for n in range(9)))
    then = [RestatedFact(key=f"{n}", fact=fact.fact) for n, fact in enumerate(facts)]
    batch = DeltaApplied(scope="local", deltas=[added])
    live.node.write(RestateBatch(payload=batch, then=tuple(then)))
    path = f"/v1/time-travel/entities/{ENTITIES[0]}"
    whole = live.call("GET", path).json()["events"]
    kinds = [event["kind"] for event in whole]
    assert kinds == ["fact_asserted", "delta_applied", *["fact_asserted"] * 4]
    assert live.call("GET", path, params={"limit": 3}).json()["events"] == whole[:3]


def test_the_life_of_an_entity_says_what_its_facts_state(live: LiveNode) -> None:
    path = f"/v1/time-travel/entities/{ALICE}"
    first, second = live.state(v="CEO"), live.state(v="chess", relation="memory:plays")

    def stated(**params: object) -> dict[str, object]:
        life = live.call("GET", path, params=params).json()
        assert {name for each in life["events"] for name in each["fact_ids"]} == {
            each["id"] for each in life["stated"]
        }
        return {each["id"]: each["value"]["v"] for each in life["stated"]}

    assert stated() == {first["id"]: "CEO", second["id"]: "chess"}
    assert stated(limit=1) == {first["id"]: "CEO"}
    assert stated(as_of=f"position:{first['position']}") == {first["id"]: "CEO"}


def test_an_unreadable_fact_has_no_life(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    writer = live.mint("read", "write", entity="agent:w", sources=["*"])
    reader = live.mint("read", entity="agent:r", scopes=["local"])
    hidden = live.state(key=writer, v="secret")
    absent = live.call("GET", "/v1/time-travel/facts/nothing", key=reader)
    answer = live.call("GET", f"/v1/time-travel/facts/{hidden['id']}", key=reader)
    assert (answer.status_code, answer.content) == (404, absent.content)
    assert live.call("GET", f"/v1/time-travel/entities/{ALICE}", key=reader).status_code == 404
    found = live.call("GET", RANGE, key=reader, params={"from": "position:0"}).json()
    assert found["counts"]["added"] == 0
    assert live.call(
        "POST", "/v1/time-travel/sql", key=reader, json={"sql": "SELECT 1"}
    ).json() == {"detail": "audit.read capability required"}


def test_sql_answers_in_three_formats(live: LiveNode) -> None:
    live.state(v="=1+1", relation="tag:a")
    live.state(v="two", relation="tag:b")
    body = {"sql": "SELECT relation, value FROM facts ORDER BY relation"}

    def asked(**more: Any) -> Any:
        return live.call("POST", "/v1/time-travel/sql", key=CONTROL_TOKEN, json={**body, **more})

    first = asked()
    assert first.status_code == 200, first.text
    assert first.json()["rows"] == [["tag:a", "=1+1"], ["tag:b", "two"]]
    lines = list(csv.reader(io.StringIO(asked(format="csv").text)))
    assert lines == [["relation", "value"], ["tag:a", "'=1+1"], ["tag:b", "two"]]
    parquet = asked(format="parquet")
    assert parquet.headers["content-type"] == "application/vnd.apache.parquet"
    path = live.node.directory.path / "answer.parquet"
    path.write_bytes(parquet.content)
    with duckdb.connect() as db:
        rows = db.execute(f"SELECT relation, value FROM '{path}' ORDER BY relation").fetchall()
    assert rows == [("tag:a", "=1+1"), ("tag:b", "two")]
    refused = asked(sql="DROP VIEW facts")
    assert (refused.status_code, refused.json()["detail"]["code"]) == (400, "sql_refused")


def test_the_difference_as_a_file(live: LiveNode) -> None:
    live.state(v="one")
    answer = live.call("GET", RANGE, params={"from": "position:0", "format": "csv"})
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["change"], line["value.v"]) for line in lines] == [("added", "one")]


def test_a_file_of_no_changes_has_no_rows(live: LiveNode) -> None:
    head = f"position:{live.state(v='one')['position']}"
    params = {"from": head, "to": head}
    text = live.call("GET", RANGE, params=params | {"format": "csv"}).text
    assert text.split() == ["change"]
    answer = live.call("GET", RANGE, params=params | {"format": "parquet"})
    path = live.node.directory.path / "answer.parquet"
    path.write_bytes(answer.content)
    with duckdb.connect() as db:
        assert db.execute(f"SELECT change FROM '{path}'").fetchall() == []
