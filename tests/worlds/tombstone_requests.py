"""Tombstones over HTTP."""

from typing import Any

from tests.worlds.live import CONTROL_TOKEN, LiveNode

ALICE = "stigmem://t.example/user/alice"

BOB = "stigmem://t.example/user/bob"


def admin(live: LiveNode, method: str, path: str, **options: Any) -> Any:
    return live.call(method, path, key=CONTROL_TOKEN, **options)


def bury(live: LiveNode, entity: str = ALICE, **fields: Any) -> dict[str, Any]:
    answer = admin(live, "POST", "/v1/tombstones", json={"entity_uri": entity, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def revoke(live: LiveNode, tombstone_id: str) -> Any:
    path = f"/v1/tombstones/{tombstone_id}/revoke"
    return admin(live, "POST", path, json={"reason": "a mistake"})


def listed(live: LiveNode, **params: Any) -> dict[str, Any]:
    asked = {"include_contradicted": "true", "include_retracted": "true", **params}
    answer = live.call("GET", "/v1/facts", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(page: dict[str, Any]) -> set[str]:
    return {fact["id"] for fact in page["facts"]}
