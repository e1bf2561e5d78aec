"""The list of facts: filters, contradictions, totals and cursors."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.routes.facts.fact_list import FactPage
from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode, fact

START_US = 1_800_000_000_000_000


def ids(page: dict[str, Any]) -> list[str]:
    return [record["id"] for record in page["facts"]]


def listed(live: LiveNode, **params: Any) -> dict[str, Any]:
    answer = live.call("GET", "/v1/facts", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Total-Count"] == str(answer.json()["total"])
    return answer.json()


def walk(live: LiveNode, **params: Any) -> list[dict[str, Any]]:
    pages = [listed(live, **params)]
    while pages[-1]["cursor"]:
        pages.append(listed(live, **params, cursor=pages[-1]["cursor"]))
    return pages


def test_an_empty_store_answers_the_protocols_empty_page(live: LiveNode) -> None:
    assert listed(live) == {"facts": [], "total": 0, "cursor": None, "tombstone_notices": []}


def test_facts_come_newest_first(live: LiveNode) -> None:
    made = [live.state(relation=f"memory:r{n}")["id"] for n in range(5)]
    page = listed(live)
    convert(page, FactPage)
    convert(page["facts"], list[FactRecord])
    assert ids(page) == made[::-1]


def test_a_page_has_50_facts_by_default(live: LiveNode) -> None:
    items = [fact(entity=f"user:{n}") for n in range(51)]
    assert live.call("POST", "/v1/facts/batch", json=items).status_code == 200
    page = listed(live)
    assert (len(page["facts"]), page["total"]) == (50, 51)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"entity": " STIGMEM://T.example/User/Alice "}, {"a", "b"}),
        ({"entity": "user:nobody"}, set()),
        ({"relation": "memory:role"}, {"a", "c"}),
        ({"source": "Agent:B"}, {"b"}),
        ({"scope": "public"}, {"c"}),
        ({"scope": "public", "relation": "memory:role"}, {"c"}),
        ({"min_confidence": "0.5"}, {"a", "b"}),
        ({"attested": "true"}, set()),
        ({"entity": ""}, {"a", "b", "c"}),
    ],
)
def test_filters_narrow_and_totals_count_every_match(
    live: LiveNode, params: dict[str, str], expected: set[str]
) -> None:
    names = {
        live.state()["id"]: "a",
        live.state(relation="memory:city", source="agent:b")["id"]: "b",
        live.state(entity="user:bob", scope="public", confidence=0.4)["id"]: "c",
    }
    page = listed(live, **params, limit=1)
    assert page["total"] == len(expected)
    assert {names[name] for name in ids(listed(live, **params))} == expected


def test_after_and_valid_at_are_instants(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(START_US)
    live = serve(clock=clock)
    first = live.state(valid_from="2026-01-01T00:00:00Z", valid_until="2099-01-01T00:00:00Z")
    clock.advance(1_000_000)
    second = live.state(relation="memory:city")
    assert ids(listed(live, after=first["timestamp"])) == [second["id"]]
    assert ids(listed(live, valid_at="2020-01-01T00:00:00Z")) == [second["id"]]


def test_expired_facts_show_only_on_request(live: LiveNode) -> None:
    old = live.state(valid_until="2001-01-01T00:00:00+00:00")
    assert listed(live)["total"] == 0
    shown = listed(live, include_expired="true")["facts"]
    assert [(each["id"], each["valid_until"]) for each in shown] == [
        (old["id"], "2001-01-01T00:00:00+00:00")
    ]


def test_retracted_facts_show_only_on_request(live: LiveNode) -> None:
    gone = live.state()
    marker = live.state(v="retracted", confidence=0.0)
    assert listed(live)["total"] == 0
    assert ids(listed(live, include_retracted="true")) == [marker["id"], gone["id"]]


def test_a_requested_retracted_fact_shows_with_a_live_rival(live: LiveNode) -> None:
    gone = live.state(v="A")
    live.call("POST", f"/v1/facts/{gone['id']}/retract")
    kept = live.state(v="B")
    shown = listed(live, include_retracted="true")["facts"]
    assert [(each["id"], each["contradicted"]) for each in shown] == [
        (kept["id"], False),
        (gone["id"], False),
    ]


# -- contradictions -------------------------------------------------------------------------


def test_equal_confidence_hides_both_and_the_flag_shows_both(live: LiveNode) -> None:
    live.state(v="A")
    live.state(v="B")
    assert listed(live)["total"] == 0
    page = listed(live, include_contradicted="true")
    assert [each["contradicted"] for each in page["facts"]] == [True, True]


@pytest.mark.parametrize("fields", ["full", "facts", "compact"])
def test_an_empty_list_tells_of_contradicted_matches(live: LiveNode, fields: str) -> None:
    live.state(v="A")
    assert "warnings" not in listed(live, fields=fields)
    live.state(v="B")
    live.state(v="other", relation="memory:city")
    (warning,) = listed(live, fields=fields, relation="memory:role")["warnings"]
    assert warning == (
        "facts left out because they are contradicted, without another value in their place: 2; "
        "include_contradicted=true lists them, prefer=source the newest of each source"
    )
    assert len(listed(live, fields=fields, relation="memory:role", zzz="1")["warnings"]) == 2
    assert "warnings" not in listed(live, fields=fields, entity="user:nobody")


def test_a_list_tells_of_values_that_a_tie_hides(live: LiveNode) -> None:
    live.state(v="A", confidence=0.9)
    live.state(v="B", confidence=0.8)
    live.state(v="other", relation="memory:city")
    assert "warnings" not in listed(live)  # the list has A in place of B
    live.state(v="C", confidence=0.9)
    page = listed(live, limit=1)
    assert page["total"] == 1
    assert "without another value in their place: 3; " in page["warnings"][0]
    assert "warnings" not in listed(live, prefer="source")
    assert "warnings" not in listed(live, include_contradicted="true")
    live.state(v="more", relation="memory:town")
    cursor = listed(live, limit=1)["cursor"]
    assert "warnings" not in listed(live, limit=1, cursor=cursor)


def test_an_empty_list_tells_nothing_of_unreadable_facts(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    writer, reader = live.mint("write"), live.mint("read", entity="agent:b", scopes=["public"])
    for v in "AB":
        live.state(key=writer, v=v, scope="company")
    answer = live.call("GET", "/v1/facts", key=reader).json()
    assert (answer["total"], "warnings" in answer) == (0, False)


def test_strictly_higher_confidence_wins(live: LiveNode) -> None:
    winner = live.state(v="A", confidence=0.9)
    live.state(v="B", confidence=0.8)
    assert ids(listed(live)) == [winner["id"]]
    assert ids(listed(live, limit=1)) == [winner["id"]]


def test_prefer_hlc_breaks_the_tie_for_the_newer(live: LiveNode) -> None:
    live.state(v="A")
    newer = live.state(v="B")
    assert ids(listed(live, prefer="hlc")) == [newer["id"]]


def test_two_sources_that_agree_do_not_contradict(live: LiveNode) -> None:
    live.state(v="A")
    live.state(v="A", source="agent:other")
    assert [each["contradicted"] for each in listed(live)["facts"]] == [False, False]


def test_set_valued_relations_hold_several_values(live: LiveNode) -> None:
    for v in ("stigmem://t/p/a", "stigmem://t/p/b"):
        live.state(relation="rel:works-on", type="ref", v=v)
    live.state(relation="memory:likes", v="tea")
    live.state(relation="memory:likes", v="coffee")
    assert listed(live)["total"] == 2
    live.call("PUT", "/v1/relations/set-valued", json={"relations": ["memory:likes"]})
    assert listed(live)["total"] == 4


def test_a_resolved_conflict_shows_its_winner_and_flags_the_loser(live: LiveNode) -> None:
    winner, loser = live.state(v="A"), live.state(v="B")
    found = live.call("GET", "/v1/conflicts").json()["conflicts"][0]
    path = f"/v1/conflicts/{found['conflict_id']}/resolve"
    live.call("POST", path, json={"winning_fact_id": winner["id"]})
    key = {"entity": winner["entity"]}
    assert [(each["id"], each["contradicted"]) for each in listed(live, **key)["facts"]] == [
        (winner["id"], False)
    ]
    both = listed(live, **key, include_contradicted="true")["facts"]
    assert [(each["id"], each["contradicted"]) for each in both] == [
        (loser["id"], True),
        (winner["id"], False),
    ]


def test_facts_valid_at_different_times_do_not_contradict(live: LiveNode) -> None:
    live.state(v="A", valid_until="2090-01-01T00:00:00Z")
    live.state(v="B", valid_from="2090-01-01T00:00:00Z")
    assert listed(live)["total"] == 2
    third = live.state(v="C", confidence=0.5)
    assert listed(live)["total"] == 2
    assert third["id"] not in ids(listed(live))
    fourth = live.state(v="D", source="agent:d", valid_until="2089-01-01T00:00:00Z")
    shown = listed(live)["facts"]
    assert [(each["value"]["v"], each["contradicted"]) for each in shown] == [
        ("D", True), ("B", True), ("A", True),
    ]  # fmt: skip
    assert fourth["contradicted"]


@pytest.mark.parametrize("source", ["agent:a", "agent:b"])
@pytest.mark.parametrize("confidence", [0.5, 1.0])
def test_with_valid_at_only_facts_valid_then_contradict(
    live: LiveNode, source: str, confidence: float
) -> None:
    live.state(v="A", source="agent:a", confidence=0.5, valid_from="2020-01-01T00:00:00Z")
    live.state(v="B", source=source, confidence=confidence, valid_from="2023-01-01T00:00:00Z")

    def flags(valid_at: str) -> list[tuple[str, bool]]:
        shown = listed(live, valid_at=valid_at)["facts"]
        return [(each["value"]["v"], each["contradicted"]) for each in shown]

    def conflicts(valid_at: str) -> int:
        answer = live.call("GET", "/v1/conflicts", params={"valid_at": valid_at})
        return len(answer.json()["conflicts"])

    both = [("B", True), ("A", True)] if source == "agent:b" else []
    assert flags("2021-06-01T00:00:00Z") == [("A", False)]
    assert flags("2023-01-01T00:00:00Z") == ([("B", True)] if confidence == 1.0 else both)
    assert [conflicts(f"{year}-06-01T00:00:00Z") for year in (2019, 2021, 2025)] == [0, 0, 1]


def test_many_facts_give_the_same_answer_as_few(live: LiveNode) -> None:
    """Exceeds the bound below which keys are looked up one by one."""
    batch = [
        {
            "entity": f"user:{n}",
            "relation": "memory:x",
            "value": {"type": "string", "v": v},
            "source": "agent:a",
            "scope": "company",
            "confidence": confidence,
        }
        for n in range(300)
        for v, confidence in (("A", 1.0), ("B", 1.0 if n % 3 == 0 else 0.5))
    ]
    live.call("POST", "/v1/facts/batch", json=batch)
    assert listed(live)["total"] == 200
    assert listed(live, include_contradicted="true")["total"] == 600
    assert sum(listed(live, entity=f"user:{n}")["total"] for n in range(6)) == 4


# -- pages ----------------------------------------------------------------------------------


def test_a_walk_neither_skips_nor_repeats_while_facts_arrive_and_end(live: LiveNode) -> None:
    made = [live.state(relation=f"memory:r{n}")["id"] for n in range(25)]
    page = listed(live, limit=10)
    seen = ids(page)
    for n in range(12):
        live.state(relation=f"memory:new{n}")
        live.call("POST", f"/v1/facts/{made[n]}/retract")
        if page["cursor"]:
            page = listed(live, limit=4, cursor=page["cursor"])
            assert page["total"] == 25
            seen += ids(page)
    assert seen == made[::-1]
    assert page["cursor"] is None


def test_a_cursor_belongs_to_its_query_and_rejects_changes(live: LiveNode) -> None:
    for n in range(3):
        live.state(relation=f"memory:r{n}")
    cursor = listed(live, limit=1)["cursor"]
    for params in (
        {"cursor": cursor, "scope": "company"},
        {"cursor": cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")},
        {"cursor": "nonsense"},
        {"cursor": "é"},
        {"cursor": "A" * 5000},
    ):
        answer = live.call("GET", "/v1/facts", params=params)
        assert answer.status_code == 400
        assert answer.json()["detail"]["code"] == "invalid_cursor"


def test_a_page_ends_at_its_bytes(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, size in enumerate((10, 200, 10, 40, 40, 90)):
        live.state(relation=f"memory:r{n}", value={"type": "string", "v": "x" * size})
    whole = ids(listed(live))
    trail = live.call("GET", "/v1/audit").json()["entries"]
    monkeypatch.setattr("engramlog.api.answers.fact_list.PAGE_BYTES_MAX", 100)
    pages = walk(live, limit=4)
    assert [len(page["facts"]) for page in pages] == [1, 3, 1, 1]
    assert [each for page in pages for each in ids(page)] == whole
    assert {page["total"] for page in pages} == {6}
    found: list[Any] = []
    cursor = None
    while not found or cursor:
        page = live.call("GET", "/v1/audit", params={"cursor": cursor} if cursor else {}).json()
        found += page["entries"]
        cursor = page["cursor"]
    assert found == trail


def test_a_cursor_expires(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(START_US)
    live = serve(clock=clock, cursor_ttl_s=60)
    for n in range(2):
        live.state(relation=f"memory:r{n}")
    cursor = listed(live, limit=1)["cursor"]
    clock.advance(61_000_000)
    answer = live.call("GET", "/v1/facts", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "cursor_expired")


def test_a_cursor_outlives_a_restart(live: LiveNode) -> None:
    for n in range(3):
        live.state(relation=f"memory:r{n}")
    cursor = listed(live, limit=1)["cursor"]
    path = live.node.directory.path
    live.close()
    again = LiveNode(path)
    try:
        assert len(ids(listed(again, cursor=cursor))) == 2
    finally:
        again.close()


def test_a_cursor_gives_no_rights(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    wide = live.mint("read", "write", entity="agent:wide")
    narrow = live.mint("read", entity="agent:narrow", scopes=["public"])
    for n in range(4):
        live.state(relation=f"memory:r{n}", scope="public" if n % 2 else "company", key=wide)
    first = live.call("GET", "/v1/facts", key=wide, params={"limit": 1}).json()
    rest = live.call("GET", "/v1/facts", key=narrow, params={"cursor": first["cursor"]}).json()
    assert {record["scope"] for record in rest["facts"]} == {"public"}


def test_a_tail_delivers_each_fact_once_as_it_comes(live: LiveNode) -> None:
    made = [live.state(relation=f"memory:r{n}")["id"] for n in range(5)]
    pages = [listed(live, tail="true", limit=2)]
    while len([name for page in pages for name in ids(page)]) < 5:
        pages.append(listed(live, tail="true", limit=2, cursor=pages[-1]["cursor"]))
    assert [name for page in pages for name in ids(page)] == made[::-1]
    resume = pages[-1]["cursor"]
    assert resume
    empty = listed(live, tail="true", cursor=resume)
    assert (ids(empty), empty["total"]) == ([], 0)
    more = [live.state(relation=f"memory:s{n}")["id"] for n in range(3)]
    seen: list[str] = []
    cursor = empty["cursor"]
    while len(seen) < 3:
        page = listed(live, limit=2, cursor=cursor)
        seen += ids(page)
        cursor = page["cursor"]
    assert seen == more[::-1]
    assert ids(listed(live, cursor=cursor)) == []


# -- the past -------------------------------------------------------------------------------


def test_as_of_a_position_equals_the_answer_then(serve: Callable[..., LiveNode]) -> None:
    clock = FixedClock(START_US)
    live = serve(clock=clock)
    then: list[tuple[int, str]] = []
    for step in (
        lambda: live.state(v="A"),
        lambda: live.state(v="B", confidence=0.5),
        lambda: live.state(v="retracted", confidence=0.0),
        lambda: live.state(v="C"),
        lambda: live.call("POST", "/v1/decay/sweep", params={"ttl_seconds": "0"}),
    ):
        clock.advance(1_000_000)
        step()
        now = live.call("GET", "/v1/facts", params={"include_contradicted": "true"})
        then.append((live.node.log.head().position, now.text))
    for position, text in then:
        params = {"include_contradicted": "true", "as_of": f"position:{position}"}
        assert live.call("GET", "/v1/facts", params=params).text == text


@pytest.mark.parametrize(
    ("as_of", "code"),
    [
        ("yesterday", "as_of_invalid_timestamp"),
        ("2020-01-01T00:00:00", "as_of_invalid_timestamp"),
        ("position:-1", "as_of_invalid_timestamp"),
        ("position:999999", "as_of_future"),
        ("2999-01-01T00:00:00Z", "as_of_future"),
    ],
)
def test_a_malformed_moment_is_400(refusing: LiveNode, as_of: str, code: str) -> None:
    answer = refusing.call("GET", "/v1/facts", params={"as_of": as_of})
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, code)


def test_time_travel_can_be_off(serve: Callable[..., LiveNode]) -> None:
    params = {"as_of": "2020-01-01T00:00:00Z"}
    off = serve(time_travel_enabled=False).call("GET", "/v1/facts", params=params)
    assert off.status_code == 501
    assert off.json()["detail"]["code"] == "time_travel_plugin_not_loaded"
    gated = serve(time_travel_allow_fact_query_as_of=False)
    answer = gated.call("GET", "/v1/facts", params=params)
    assert answer.status_code == 403
    assert answer.json()["detail"]["code"] == "time_travel_plugin_disabled"


# -- malformed queries ----------------------------------------------------------------------


def test_an_error_names_the_bad_parameter(live: LiveNode) -> None:
    scope = live.call("GET", "/v1/facts", params={"scope": "galaxy"})
    assert scope.status_code == 400
    assert scope.json()["detail"].startswith("scope must be one of")
    for name, text in (
        ("limit", "0"), ("limit", "501"), ("limit", "x"), ("min_confidence", "2"),
        ("min_confidence", "nan"), ("after", "yesterday"), ("include_expired", "perhaps"),
        ("valid_at", "2020-13-01"), ("prefer", "luck"),
    ):  # fmt: skip
        answer = live.call("GET", "/v1/facts", params={name: text})
        assert answer.status_code == 422, (name, text)
        assert answer.json()["detail"][0]["loc"] == ["query", name]


def test_repeated_parameters_are_refused_and_unknown_ones_named(live: LiveNode) -> None:
    twice = live.call("GET", "/v1/facts?scope=local&scope=public")
    assert twice.status_code == 422
    assert twice.json()["detail"][0]["loc"] == ["query", "scope"]
    unknown = live.call("GET", "/v1/facts?colour=red").json()
    assert unknown["warnings"] == ["unknown field 'colour' is ignored"]


def test_an_absent_garden_is_not_found(live: LiveNode) -> None:
    answer = live.call("GET", "/v1/facts", params={"garden_id": "ops"})
    assert (answer.status_code, answer.json()) == (404, {"detail": "garden not found"})
