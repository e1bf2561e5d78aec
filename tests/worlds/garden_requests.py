"""Gardens over HTTP: created, joined and listed."""

from typing import Any

from tests.worlds.live import LiveNode


def create_garden(node: LiveNode, key: str, slug: str = "ops", **fields: Any) -> dict[str, Any]:
    body = {"slug": slug, "name": slug.title(), **fields}
    answer = node.call("POST", "/v1/gardens", key=key, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def add_member(node: LiveNode, key: str, name: str, role: str, slug: str = "ops") -> None:
    body = {"entity_uri": f"agent:{name}", "role": role}
    answer = node.call("POST", f"/v1/gardens/{slug}/members", key=key, json=body)
    assert answer.status_code == 201, answer.text


def status_and_body(answer: Any) -> tuple[int, Any]:
    return answer.status_code, answer.json() if answer.content else None
