"""Only a garden's members see its facts: to all others, every route answers the same bytes whether
or not the facts exist. The twin worlds come from ``private_worlds``."""

import re
import tempfile
from pathlib import Path

from hypothesis import given, note

from engramlog.api.http.openapi import openapi_path
from engramlog.api.routes.table import ROUTES
from tests.worlds.busy_life import BUSY
from tests.worlds.live import CONTROL_TOKEN
from tests.worlds.private_questions import (
    QUICK,
    STATEMENTS,
    Ask,
    answers,
    declared,
    hidden_conflicts,
    reads,
    same,
    statements,
    writes,
)
from tests.worlds.private_steps import SCOPE, Step, histories
from tests.worlds.private_vectors import embedded_to_the_end
from tests.worlds.private_worlds import private_texts, two_lives


@given(histories())
@QUICK
def test_an_outsider_gets_the_answers_of_a_world_without_private_facts(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path, two_lives(Path(path), history) as (told, untold):
        note(f"{len(told.open)} public, {len(told.hidden)} private")
        for ask in (*reads(told), *writes(told)):
            same(told, untold, ask)


def test_a_busy_garden_leaves_no_trace(tmp_path: Path) -> None:
    with two_lives(tmp_path, BUSY) as (told, untold):
        assert len(private_texts(told)) >= 6
        assert not len(private_texts(untold))
        assert hidden_conflicts(told)
        for life in (
            told,
            untold,
        ):  # first read the facts that others may see: no trace of the reads remains
            for key in (CONTROL_TOKEN, life.member_key):
                for scope in (SCOPE, "*"):
                    body = {"query": "tea", "scope": scope, "track": False}
                    full = {"Stigmem-Verify": "full"}
                    life.live.call("POST", "/v1/recall", key=key, json=body, headers=full)
        for ask in (*reads(told), *statements(), *writes(told)):
            same(told, untold, ask)


def test_the_meaning_of_private_facts_leaves_no_trace(tmp_path: Path) -> None:
    with two_lives(tmp_path, BUSY) as (told, untold):
        for life in (told, untold):
            assert embedded_to_the_end(life)
        body = {"query": "which drink is there?", "scope": SCOPE, "explain": True}
        for life in (told, untold):
            answer = life.live.call("POST", "/v1/recall", key=life.key, json=body).json()
            ran = {stage["name"]: stage["status"] for stage in answer["stages"]}
            assert ran["semantic"] == "completed"
        for ask in (Ask("POST", "/v1/recall", body=body), *reads(told)):
            same(told, untold, ask)


def test_an_admin_of_the_node_reads_nothing_private(tmp_path: Path) -> None:
    """Gardens and their members are an admin's to see; their facts are not."""
    with two_lives(tmp_path, BUSY) as (told, untold):
        told.key, untold.key = told.admin_key, untold.admin_key
        gardens = re.compile(r"/v1/(gardens|auth|time-travel/sql).*")
        for ask in reads(told):
            asked = "garden_id" in ask.params or "garden_id" in (ask.body or {})
            if ask.path == "/v1/export" and ask.params:
                assert declared(told, ask) == declared(untold, ask)
            elif not asked and not gardens.fullmatch(ask.path):
                same(told, untold, ask)
        for path in ("/v1/content/flagged", "/v1/trust/policy"):
            same(told, untold, Ask("GET", path))
        sources = told.live.call("GET", "/v1/trust/sources", key=told.key)
        assert sources.json()["sources"] == []  # the other world has no trust settings
        # The node's own events show that gardens exist, which admins may know.
        same(told, untold, Ask("POST", "/v1/time-travel/sql", body={"sql": STATEMENTS[1]}))
        refused = told.live.call(
            "GET", "/v1/facts", key=told.key, params={"garden_id": told.gardens[0]}
        )
        assert refused.status_code == 403


def test_a_member_sees_more_than_the_others(tmp_path: Path) -> None:
    """The worlds differ where they should: otherwise the law above would be empty."""
    with two_lives(tmp_path, BUSY) as (told, untold):
        told.key, untold.key = told.member_key, untold.member_key
        asks = (*reads(told), *statements())
        different = [ask for ask in asks if answers(told, ask) != answers(untold, ask)]
        paths = {ask.path.split("/")[2] for ask in different if ask.path.startswith("/v1/")}
        assert paths >= {
            "facts", "recall", "conflicts", "graph", "gardens", "quarantine", "cards", "lint",
            "scopes", "time-travel", "episodes", "deltas", "summaries", "export",
        }  # fmt: skip


def test_every_read_route_is_tested(tmp_path: Path) -> None:
    with two_lives(tmp_path, BUSY) as (told, _):
        asked = {(ask.method, ask.path) for ask in (*reads(told), *writes(told))}
    for route in ROUTES:
        if route.permission not in ("read", "any", "none") or route.method == "DELETE":
            continue
        if route.group == "capabilities":  # tokens, and nothing of facts
            continue
        if route.path == "/v1/federation/declaration":  # signed by each node, of itself alone
            continue
        pattern = re.escape(openapi_path(route.path))
        pattern = re.sub(r"\\\{\w+\\\}", ".+", pattern)
        assert any(
            method == route.method and re.fullmatch(pattern, path) for method, path in asked
        ), f"{route.method} {route.path} is not asked"
