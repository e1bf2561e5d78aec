"""A key's view of a node, and the tables of the protocol's §20 in the node's files."""

from __future__ import annotations

from typing import Any

import apsw
import httpx
import sqlite_vec

from tests.worlds.processes import NodeProcess


class Caller:
    """One key's view of the node."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = self.http.request(method, path, **options)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def say(self, entity: str, relation: str, value: Any, **fields: Any) -> dict[str, Any]:
        kind = "ref" if str(value).startswith("stigmem://") else "text"
        body = {
            "entity": entity,
            "relation": relation,
            "value": {"type": kind, "v": value},
            "scope": "company",
            **fields,
        }
        return self.ask("POST", "/v1/facts?wait=embedded", 201, json={"source": self.name, **body})

    def recall(self, query: str, **fields: Any) -> dict[str, Any]:
        body = {"query": query, "token_budget": 4000, "scope": "company", **fields}
        return self.ask("POST", "/v1/recall", json=body)

    @property
    def name(self) -> str:
        return self.ask("GET", "/v1/me")["entity_uri"]


def uri(path: str) -> str:
    return f"stigmem://seed.example/{path}"


def tables(node: NodeProcess) -> apsw.Connection:
    return apsw.Connection(str(node.data / "projections.db"), flags=apsw.SQLITE_OPEN_READONLY)


def rows(node: NodeProcess, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    opened = tables(node)
    try:
        return list(opened.execute(sql, values))
    finally:
        opened.close()


def vectors(node: NodeProcess) -> apsw.Connection:
    (path,) = (p for p in node.data.glob("vectors-*.db"))
    opened = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    opened.enable_load_extension(True)
    opened.load_extension(sqlite_vec.loadable_path())
    return opened
