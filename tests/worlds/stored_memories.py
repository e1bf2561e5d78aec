"""Storing memories over HTTP, and looking at what happened to them."""

from typing import Any

from msgspec import convert

from engramlog.api.routes.memory.memories import MemoryStored
from tests.worlds.live import LiveNode


def post(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> Any:
    if key is None:
        fields.setdefault("user_id", "ann")
    return live.call("POST", "/v1/memories", key=key, json={"content": content, **fields})


def store(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """A memory that must be new."""
    answer = post(live, content, key, **fields)
    assert answer.status_code == 201, answer.text
    convert(answer.json(), MemoryStored)
    assert (answer.json()["stored"], answer.json()["memoriesCount"]) == (True, 1)
    return answer.json()


def skipped(live: LiveNode, content: str, key: str | None = None, **fields: Any) -> dict[str, Any]:
    """Post a memory that repeats a recent one."""
    count = live.node.reader.pin().count
    answer = post(live, content, key, **fields)
    assert answer.status_code == 200, answer.text
    convert(answer.json(), MemoryStored)
    assert (answer.json()["stored"], answer.json()["memoriesCount"]) == (True, 0)
    assert live.node.reader.pin().count == count
    return answer.json()


def shown(live: LiveNode, fact: str, **query: Any) -> dict[str, Any]:
    answer = live.call("GET", f"/v1/facts/{fact}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def living(live: LiveNode, **query: Any) -> set[str]:
    answer = live.call("GET", "/v1/facts", params={"include_contradicted": True, **query})
    assert answer.status_code == 200, answer.text
    return {each["value"]["v"] for each in answer.json()["facts"]}


def merge(live: LiveNode, *ids: str, key: str | None = None, once: str = "") -> Any:
    headers = {"Idempotency-Key": once} if once else {}
    return live.call("POST", "/v1/memories/merge", key=key, json={"ids": ids}, headers=headers)
