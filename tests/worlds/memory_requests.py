"""Episodes and deltas over HTTP."""

from typing import Any

from tests.worlds.live import LiveNode

WHEN = "2026-01-01T00:00:00Z"


def delta(kind: str, *, replaces: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": kind,
        "source_episode_ids": fields.pop("sources", ["ep-1"]),
        "promotion_ts": fields.pop("at", WHEN),
        "rule_id": "by-hand",
        "confidence": fields.pop("confidence", 1.0),
    }
    if replaces is not None:
        body["replaces"] = replaces
    if kind in ("add", "update"):
        body["fact_payload"] = fields.pop("payload", None) or {
            "id": fields.pop("id"),
            "subject": fields.pop("subject", "self"),
            "predicate": fields.pop("predicate", "drinks"),
            "object": fields.pop("object", "tea"),
        }
    return {**body, **fields}


def apply(live: LiveNode, *deltas: dict[str, Any], **fields: Any) -> Any:
    key = fields.pop("key", None)
    body = {"user": "Alice", "agent": "rag", "deltas": list(deltas), **fields}
    return live.call("POST", "/v1/deltas", json=body, key=key)


def facts(live: LiveNode, key: str | None = None, **query: Any) -> list[dict[str, Any]]:
    answer = live.call("GET", "/v1/deltas/facts", params={"user": "Alice", **query}, key=key)
    assert answer.status_code == 200, answer.text
    return answer.json()["facts"]


def objects(live: LiveNode, **query: Any) -> list[Any]:
    return [fact["payload"]["object"] for fact in facts(live, **query)]


def put(
    live: LiveNode, user: str = "Alice", session: str = "S1", agent: str = "rag", **more: Any
) -> Any:
    key, status = more.pop("key", None), more.pop("status", 201)
    body = {"user": user, "session": session, "agent": agent, "content": "hello", **more}
    answer = live.call("POST", "/v1/episodes", json=body, key=key)
    assert answer.status_code == status, answer.text
    return answer.json()
