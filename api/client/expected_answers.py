"""What a node's answers hold at least, so that another service's JSON is not taken for an answer.

Only routes whose answers a command prints or believes without reading a field are here.
"""

import re
from functools import cache

EXPECTED = {
    "DELETE /v1/admin/snapshots/{}": "removed",
    "DELETE /v1/aliases/{}": "",
    "DELETE /v1/auth/keys/{}": "",
    "DELETE /v1/consolidation/rules/{}": "",
    "GET /v1/admin/snapshots": "snapshots",
    "GET /v1/admin/tasks": "tasks",
    "GET /v1/consolidation/status": "rules",
    "GET /v1/content/flagged": "flagged",
    "GET /v1/decay/policies": "policies",
    "GET /v1/doctor": "status",
    "GET /v1/embeddings": "model",
    "GET /v1/entities/resolve": "canonical",
    "GET /v1/erasures": "erasures",
    "GET /v1/erasures/{}": "erasure_id",
    "GET /v1/federation/declaration": "node_id",
    "GET /v1/federation/peers": "peers",
    "GET /v1/federation/peers/{}": "peer_id",
    "GET /v1/profiles": "profiles",
    "GET /v1/recall/receipts": "receipts",
    "GET /v1/recall/receipts/{}": "receipt_id",
    "GET /v1/time-travel/entities/{}": "events",
    "GET /v1/tombstones": "tombstones",
    "GET /v1/tombstones/{}": "tombstoned",
    "POST /v1/auth/keys": "id",
    "POST /v1/capabilities": "token",
    "POST /v1/capabilities/inspect": "valid",
    "POST /v1/capabilities/{}/revoke": "token_id",
    "POST /v1/content/flagged/{}/review": "status",
    "POST /v1/erasures": "erasure_id",
    "POST /v1/facts": "id",
    "POST /v1/facts/{}/retract": "position",
    "POST /v1/federation/peers/{}/approve": "node_id",
    "POST /v1/federation/peers/{}/release": "node_id",
    "POST /v1/federation/peers/{}/revoke": "node_id",
    "POST /v1/memories": "stored",
    "POST /v1/replication/promote": "node_id",
    "POST /v1/tombstones": "id",
    "POST /v1/tombstones/{}/revoke": "tombstone_id",
    "PUT /v1/consolidation/rules/{}": "rule_id",
    "PUT /v1/federation/peers/{}/grants": "node_id",
}
"""A field of the answers of each route; empty: they have no content."""


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(re.escape(route).replace(r"\{\}", "[^/]+")), field)
        for route, field in EXPECTED.items()
    ]


def missing(method: str, path: str, answer: object) -> str | None:
    """What an answer lacks to be a node's, as the end of a sentence; None if it may be one."""
    asked = f"{method} {path}"
    for pattern, field in _patterns():
        if pattern.fullmatch(asked):
            if not field:
                return None if answer is None else "its answer has content"
            if isinstance(answer, dict) and field in answer:
                return None
            return f"there is no {field!r}"
    return None
