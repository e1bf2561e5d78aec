"""The self-check, and the routes that the protocol requires of every node."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import convert

from engramlog.api.routes.node.doctor import DoctorReport
from engramlog.api.routes.node.protocol_stubs import CidBackfill, Connectors
from tests.worlds.live import LiveNode


def checks(node: LiveNode) -> dict[str, str]:
    answer = node.call("GET", "/v1/doctor").json()
    convert(answer, DoctorReport)
    return {check["name"]: check["status"] for check in answer["checks"]}


def test_a_node_in_good_health(live: LiveNode) -> None:
    answer = live.call("GET", "/v1/doctor").json()
    assert (answer["status"], answer["memory_garden_acl_filtering"]) == ("ok", "enabled")
    found = checks(live)
    assert found.pop("authentication") == "warning"  # this node needs no keys
    assert set(found.values()) == {"ok"}
    assert set(found) == {
        "log", "projections", "events", "disk", "clock", "embeddings", "sanitizer",
    }  # fmt: skip


def test_failed_checks_are_named(
    serve: Callable[..., LiveNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(total=10**12, used=10**12, free=10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    node = serve(auth_required=True, sanitizer_mode="off")
    key = node.mint("read")
    answer = node.call("GET", "/v1/doctor", key=key).json()
    found = {check["name"]: check["status"] for check in answer["checks"]}
    assert (found["disk"], found["sanitizer"], found["authentication"]) == (
        "warning",
        "warning",
        "ok",
    )
    assert answer["status"] == "ok"


def test_every_fact_has_a_content_id(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True)
    key = node.mint("read", "write")
    narrow = node.mint("read", entity="agent:n", scopes=["local"])
    for n in range(3):
        node.state(key=key, v=str(n), scope="local" if n else "team")

    def status(who: str) -> dict[str, Any]:
        answer = node.call("GET", "/v1/admin/cid-backfill/status", key=who).json()
        convert(answer, CidBackfill)
        return answer

    assert list(status(key)) == [
        "total_facts", "backfilled_facts", "pending_facts", "backfill_complete",
    ]  # fmt: skip
    assert status(key)["total_facts"] == 3
    assert status(narrow) == {
        "total_facts": 2,
        "backfilled_facts": 2,
        "pending_facts": 0,
        "backfill_complete": True,
    }


def test_oidc_is_not_enabled(serve: Callable[..., LiveNode]) -> None:
    node = serve(auth_required=True)
    answer = node.call("POST", "/v1/auth/oidc/exchange", json={"id_token": "x"})
    assert (answer.status_code, answer.json()) == (
        503,
        {"detail": "OIDC is not enabled on this node"},
    )


def test_the_node_lists_how_to_connect_each_editor(live: LiveNode) -> None:
    answer = live.call("GET", "/v1/mcp/connectors").json()
    convert(answer, Connectors)
    assert answer["command"] == ["engramlog", "mcp"]
    assert list(answer["connectors"][0]) == [
        "editor", "label", "validation_tier", "docs_link", "config_path", "config_format",
    ]  # fmt: skip
    assert {each["editor"] for each in answer["connectors"]} == {
        "claude-code", "codex-cli", "gemini-cli", "continue-dev", "cursor", "zed",
    }  # fmt: skip
