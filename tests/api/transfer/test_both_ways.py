"""Import lines mean the same in a directory and for a node by its URL."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engramlog.api.client.client import Client
from engramlog.api.transfer.importing import Importer, ImportStopped, Options, Written
from engramlog.api.transfer.lines.line_kinds import AnyLine, convert_line, decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.api.transfer.url_sink import UrlSink
from tests.worlds.live import LiveNode


def fact(value: str, **more: Any) -> dict[str, Any]:
    given = {"type": "string", "v": value}
    return {"entity": "user:a", "relation": "lives_in", "value": given, "source": "agent:x", **more}


def imported(
    live: LiveNode,
    target: str,
    *items: dict[str, Any],
    skip: int = 0,
    first: Sequence[AnyLine] = (),
) -> list[str]:
    """The status of each line."""
    with Client(live.url) as client:
        url = target == "--url"
        sink = UrlSink(client) if url else NodeSink(live.node, live.settings.value_bytes_max)
        statuses: list[str] = []
        importer = Importer(
            sink,
            Options(skip=skip),
            decode_line,
            receipt=lambda _, told: statuses.append(
                told.status if isinstance(told, Written) else str(told)
            ),
        )
        importer.run((json.dumps(item).encode() for item in items), first)
    return statuses


def lives_in(live: LiveNode) -> list[str]:
    with Client(live.url) as client:
        found = client.get("/v1/facts", {"entity": "user:a"})["facts"]
    return [each["value"]["v"] for each in found]


TARGETS = pytest.mark.parametrize("target", ["--url", "--data"])


@TARGETS
def test_a_match_finds_a_fact_of_the_lines_right_before_it(live: LiveNode, target: str) -> None:
    match = {name: fact("Graz")[name] for name in ("entity", "relation", "value")}
    statuses = imported(live, target, fact("Graz"), {"op": "retract", "match": match})
    assert (statuses, lives_in(live)) == (["asserted", "retracted"], [])


@pytest.mark.parametrize(("alone", "left"), [(False, []), (True, ["Graz"])])
def test_a_record_of_confidence_0_ends_the_facts_of_any_source_unless_it_is_alone(
    live: LiveNode, alone: bool, left: list[str]
) -> None:
    record = fact("Graz", source="agent:y", confidence=0.0, alone=alone)
    assert imported(live, "--data", fact("Graz"), record) == ["asserted", "asserted"]
    assert lives_in(live) == left


@TARGETS
def test_a_date_in_a_match_is_its_first_moment(live: LiveNode, target: str) -> None:
    dated = fact("Graz", valid_from="2024-05-01")
    imported(live, target, dated)
    match = {name: dated[name] for name in ("entity", "relation", "value", "valid_from")}
    assert imported(live, target, {"op": "retract", "match": match}) == ["retracted"]


@TARGETS
def test_a_later_line_may_name_the_fact_that_settles_a_contradiction(
    live: LiveNode, target: str
) -> None:
    statuses = imported(
        live, target,
        fact("Graz", key="a"), fact("Linz", key="b", source="agent:y"),
        {"op": "resolve", "winner": "a", "loser": "b", "states": fact("Wien", key="c")},
        {"op": "retract", "target": "c"},
    )  # fmt: skip
    assert statuses == ["asserted", "asserted", "resolved", "retracted"]
    assert lives_in(live) == []


def test_a_rule_of_a_skipped_line_is_refused_by_its_line(live: LiveNode) -> None:
    """Rules come last, so the run that stopped had not written it."""
    document = {"cadence": {"every": 1}, "garden_id": "nowhere"}
    rule = {"op": "rule", "rule_id": "r", "document": document}
    with pytest.raises(ImportStopped, match=r"^line 2: "):
        imported(live, "--url", fact("Graz"), rule, fact("Linz"), skip=2)


@TARGETS
def test_a_refused_first_line_of_a_mapping_stops_before_line_1(live: LiveNode, target: str) -> None:
    first = [convert_line({"op": "retract", "id": "0190a5b6-0000-7000-8000-000000000001"})]
    message = "^a first line of the mapping: .*; nothing was imported$"
    with pytest.raises(ImportStopped, match=message):
        imported(live, target, fact("Graz"), first=first)
