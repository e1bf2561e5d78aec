"""Summaries over HTTP: their paragraphs, who sees them, and the rest after an erasure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramlog.projections.tables.database import query
from tests.worlds.garden_requests import create_garden
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.processes import engramlog
from tests.worlds.waiting import until

WEEK = "weekly/weekly_2026-W25.md"
PROFILE = {
    "name": "paragraphs",
    "description": "the summaries stage alone",
    "stages": [{"name": "summaries", "weight": 1.0}],
}


def record(live: LiveNode, *texts: str | None, key: str | None = None, **more: Any) -> Any:
    """Record the week's summary, as each text in turn; the last answer."""
    answer = None
    for text in texts:
        name = more.pop("name", WEEK)
        body = {"summaries": [{"name": name, "text": text}], **more}
        answer = live.call("POST", "/v1/summaries", key=key, json=body)
        assert answer.status_code in (200, 201), answer.text
        more["name"] = name
    assert answer is not None
    return answer.json()


def listed(live: LiveNode, key: str | None = None, **params: Any) -> list[dict[str, Any]]:
    answer = live.call("GET", "/v1/summaries", key=key, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["summaries"]


def texts(live: LiveNode, key: str | None = None, **params: Any) -> list[list[str]]:
    return [
        [each["text"] for each in summary["paragraphs"]] for summary in listed(live, key, **params)
    ]


def ids(live: LiveNode) -> list[str]:
    return [each["fact_id"] for each in listed(live)[0]["paragraphs"]]


def install(live: LiveNode) -> None:
    installed = live.call("PUT", "/v1/profiles/paragraphs", key=CONTROL_TOKEN, json=PROFILE)
    assert installed.status_code in (200, 201), installed.text


def recalled(live: LiveNode, question: str, key: str | None = None, **more: Any) -> list[str]:
    body = {"query": question, "profile": "paragraphs", **more}
    answer = live.call("POST", "/v1/recall", key=key, json=body)
    assert answer.status_code == 200, answer.text
    return [each["fact"]["value"]["v"] for each in answer.json()["results"]]


def test_a_paragraph_is_a_fact_as_long_as_the_file_has_it(live: LiveNode) -> None:
    record(live, "# W25\n\nWe moved.\n\nAlice left.", source="user:mara")
    first = ids(live)
    (fact,) = [
        each
        for each in live.call("GET", "/v1/facts", params={"source": "user:mara"}).json()["facts"]
        if each["id"] == first[1]
    ]
    assert fact["entity"] == "summary:weekly:2026-06-15"
    assert fact["relation"] == "summary:paragraph"
    assert fact["value"]["v"] == "We moved."
    assert fact["valid_from"].startswith("2026-06-15T00:00:00")
    answer = record(live, "Alice left.\n\nBob came.\n\n# W25", source="user:mara")
    assert answer["summaries"] == [
        {
            "name": WEEK,
            "tier": "weekly",
            "period_start": "2026-06-15",
            "paragraphs": 3,
            "asserted": 1,
            "retracted": 1,
            "changed": True,
        }
    ]
    now = ids(live)
    assert (now[0], now[2]) == (first[2], first[0])
    assert now[1] not in first
    again = record(live, "Alice left.\n\nBob came.\n\n# W25", source="user:mara")
    assert (again["recorded"], again["unchanged"]) == (0, 1)


def test_several_paragraphs_of_a_summary_contradict_nothing(live: LiveNode) -> None:
    record(live, "One.\n\nTwo.\n\nTwo.")
    assert texts(live) == [["One.", "Two.", "Two."]]
    assert live.call("GET", "/v1/conflicts").json()["conflicts"] == []


def test_everything_at_a_moment(live: LiveNode) -> None:
    install(live)
    first = record(live, "One.\n\nTwo.")["position"]
    second = record(live, "Two.\n\nThree.")["position"]
    record(live, None)
    assert texts(live) == []
    assert texts(live, as_of=f"position:{first}") == [["One.", "Two."]]
    assert texts(live, as_of=f"position:{second}") == [["Two.", "Three."]]
    assert recalled(live, "one OR three") == []
    assert recalled(live, "one", as_of=f"position:{first}") == ["One."]
    record(live, "Four.")
    assert texts(live) == [["Four."]]


def test_a_summary_is_its_owners_and_its_scopes(live: LiveNode) -> None:
    for source, scope in (("user:a", "local"), ("user:b", "local"), ("user:a", "team")):
        record(live, f"{source} in {scope}", source=source, scope=scope)
    assert len(listed(live)) == 3
    record(live, None, source="user:a", scope="local")
    assert texts(live, source="user:a") == [["user:a in team"]]
    assert texts(live, scope="local") == [["user:b in local"]]


def test_the_list_in_pages_newest_period_first(live: LiveNode) -> None:
    names = [f"daily/daily_2026-06-{day:02d}.md" for day in (3, 1, 5, 2, 4)]
    body = {"summaries": [{"name": each, "text": each} for each in names]}
    assert live.call("POST", "/v1/summaries", json=body).status_code == 201
    record(live, "A week.")
    found: list[str] = []
    params: dict[str, Any] = {"limit": 2, "tier": "daily", "since": "2026-06-02"}
    while True:
        page = live.call("GET", "/v1/summaries", params=params).json()
        found += [each["period_start"] for each in page["summaries"]]
        if page["cursor"] is None:
            break
        params["cursor"] = page["cursor"]
    assert found == ["2026-06-05", "2026-06-04", "2026-06-03", "2026-06-02"]
    assert len(listed(live, until="2026-06-03")) == 3


def test_keys_see_and_write_only_their_own(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    install(live)
    mara = live.mint("read", "write", entity="user:mara", sources=["user:mara"])
    team = live.mint("read", entity="user:tom", scopes=["team"])
    record(live, "Mine.", key=mara)
    assert listed(live, mara)[0]["source"] == "user:mara"
    assert listed(live, team) == []
    assert recalled(live, "mine", key=mara, scope="local") == ["Mine."]
    assert recalled(live, "mine", key=team, scope="*") == []
    body: dict[str, Any] = {"summaries": [{"name": WEEK, "text": "x"}], "source": "user:tom"}
    assert live.call("POST", "/v1/summaries", key=mara, json=body).status_code == 403
    assert live.call("POST", "/v1/summaries", key=team, json=body).status_code == 403


def test_a_garden_keeps_its_summaries(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    install(live)
    member, other = live.key_of("member"), live.key_of("other")
    garden = create_garden(live, member)
    record(live, "Of the garden.", key=member, scope=garden["scope"], garden_id=garden["id"])
    assert texts(live, member) == [["Of the garden."]]
    assert texts(live, member, garden_id=garden["id"]) == [["Of the garden."]]
    assert texts(live, other) == []
    scope = garden["scope"]
    assert recalled(live, "garden", key=member, scope=scope) == ["Of the garden."]
    assert recalled(live, "garden", key=other, scope=scope) == []


def test_an_erased_paragraph_disappears_now_and_then(live: LiveNode) -> None:
    install(live)
    position = record(live, "The zanzibar quokka.\n\nOrdinary.")["position"]
    secret = ids(live)[0]
    body = {"fact_ids": [secret], "wait": True, "timeout_s": 30}
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.status_code == 202, erased.text
    assert texts(live) == [["Ordinary."]]
    assert texts(live, as_of=f"position:{position}") == [["Ordinary."]]
    assert recalled(live, "quokka") == []
    assert recalled(live, "quokka", as_of=f"position:{position}") == []
    assert not any(
        b"quokka" in (each.payload or b"") for each in live.node.log.read_stored(0, 1_000)
    )
    with live.node.reader.pool.connection() as db:
        assert query(db, "SELECT 1 FROM summary_paragraphs WHERE fact_id=?", (secret,)) == []
    before = live.node.reader.digests().local
    assert live.node.rebuild().digest == before
    assert record(live, "Ordinary.")["recorded"] == 0


def test_an_unchanged_file_does_not_restate_an_erased_paragraph(
    serve: Callable[..., LiveNode], tmp_path: Path
) -> None:
    folder = tmp_path / "notes" / "daily"
    folder.mkdir(parents=True)
    (folder / "daily_2026-06-15.md").write_text("The zanzibar quokka.\n\nOrdinary.")
    live = serve(summaries_dir=str(tmp_path / "notes"), summaries_owner="user:Mara")
    wait_for(live, [["The zanzibar quokka.", "Ordinary."]])
    assert listed(live)[0]["source"] == "user:mara"
    body = {"fact_ids": ids(live)[:1], "wait": True, "timeout_s": 30}
    assert live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body).status_code == 202
    (folder / "daily_2026-06-16.md").write_text("Another day.")
    wait_for(live, [["Another day."], ["Ordinary."]])


def wait_for(live: LiveNode, wanted: list[list[str]]) -> None:
    until(lambda: texts(live) == wanted)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"summaries": [{"name": "weekly/weekly_probe.md", "text": "x"}]}, "invalid_summary"),
        ({"summaries": [{"name": "../weekly_2026-W25.md", "text": "x"}]}, "invalid_summary"),
        ({"summaries": [{"name": WEEK, "text": "x"}], "color": 1}, "extra_forbidden"),
        ({"summaries": [{"name": WEEK}]}, "missing"),
        ({"summaries": []}, "too_short"),
        ({"summaries": [{"name": WEEK, "text": "x\n\n" * 2_001}]}, "invalid_summary"),
    ],
)
def test_bad_input_names_its_field(refusing: LiveNode, body: dict[str, Any], code: str) -> None:
    answer = refusing.call("POST", "/v1/summaries", json=body)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["detail"]
    assert fault["type"] == code
    assert fault["loc"][0] == "body"
    assert listed(refusing) == []


@pytest.mark.parametrize("params", [{"since": "June"}, {"tier": "yearly"}, {"colour": "red"}])
def test_a_bad_question_is_refused(live: LiveNode, params: dict[str, str]) -> None:
    assert live.call("GET", "/v1/summaries", params=params).status_code == 422


def test_too_long_a_paragraph_is_refused(serve: Callable[..., LiveNode]) -> None:
    live = serve(value_bytes_max=10)
    body = {"summaries": [{"name": WEEK, "text": "short\n\nmuch too long"}]}
    answer = live.call("POST", "/v1/summaries", json=body)
    assert answer.status_code == 413
    assert answer.json()["detail"]["code"] == "value_too_large"
    assert listed(live) == []


def test_a_file_that_a_node_refuses_stops_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for day, text in {1: "One.", 2: "x" * 300_000, 3: "p\n\n" * 2_001, 4: "Four."}.items():
        (folder / f"2026-06-0{day}.md").write_text(text)
    command = ["summaries", "import", folder, "--data", tmp_path / "data"]
    done = engramlog(*command)
    assert (done.returncode, done.stdout) == (1, "recorded 2 summaries, 0 unchanged\n")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        "engramlog",  # it makes the data directory
        "skipped daily/daily_2026-06-02.md",
        "skipped daily/daily_2026-06-03.md",
    ]
    none = engramlog(*command, "--scope", "world")
    assert none.returncode == 1
    assert "scope" in none.stderr
    assert len(none.stderr.splitlines()) == 1
