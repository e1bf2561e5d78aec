"""Every possible request, sent to two worlds that differ in private facts."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from msgspec import Struct

from engramlog.eventlog.identifiers import id_text
from tests.worlds.live import fact
from tests.worlds.private_steps import (
    ENTITIES,
    GARDENS,
    MEMBER,
    NAMES,
    OUTSIDER,
    RELATIONS,
    SCOPE,
    SOURCES,
    SUMMARIES,
    USERS,
)
from tests.worlds.private_worlds import Life, private_texts

QUERIES = ("who keeps the tea and the secrets?", "atlas ledger", "user a", "a c b")

PROFILES = ("default", "stargraph", "stigmem", "naming")

FORK = "/v1/time-travel/fork"

MANIFEST = "/.well-known/stigmem-manifest.json"

IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

WRITTEN_SECONDS_MAX = 120.0
"""Ends only a test that would never end."""
_OF_THE_PROCESS = re.compile(r"seconds|process_")
"""Metrics of durations, and of the test process's own resources."""

ABSENT = "00000000-0000-7000-8000-000000000000"


class Ask(Struct, frozen=True):
    """A request: ``path`` as the client sends it."""

    method: str
    path: str
    params: dict[str, Any] = {}
    body: Any = None
    headers: dict[str, str] = {}


def reads(private_life: Life) -> Iterator[Ask]:
    """Every read route, about public and private names alike."""
    ids = [name for pair in (*private_life.open, *private_life.hidden) for name in pair] + [ABSENT]
    head = private_life.node.log.head().position
    moments: list[dict[str, Any]] = [{}, {"as_of": f"position:{max(head - 4, 1)}"}]
    for name in ids:
        yield Ask("GET", f"/v1/facts/{name}")
        yield Ask("GET", f"/v1/facts/{name}/provenance")
        yield Ask("GET", f"/v1/time-travel/facts/{name}")
        yield Ask("POST", f"/v1/facts/{name}/verify-cid")
        yield Ask("GET", f"/v1/audit/facts/{name}")
        yield Ask("GET", "/v1/audit", {"fact_id": name})
    for at in moments:
        yield from lists(at)
        yield from recalls(at)
        yield Ask("POST", "/v1/lint", body={"scope": SCOPE, **at})
        yield Ask("GET", f"/v1/scopes/{SCOPE}/synthesize", at)
        since = {"from": "position:1", "limit": 100}
        yield Ask("GET", "/v1/time-travel/diff", since | ({"to": at["as_of"]} if at else {}))
        for depth in (1, 3):
            for entity in ENTITIES:
                where = {"entity": entity, "scope": SCOPE, "depth": depth}
                yield Ask("GET", "/v1/graph/neighbors", {**where, **at})
        yield from summaries(at)
        yield Ask("GET", "/v1/aliases", at)
        yield from searches(at)
        for more in ({}, {"limit": 1}, {"entity_uri": MEMBER}, {"source": MEMBER}):
            yield Ask("GET", "/v1/audit", {**more, **at})
            yield Ask("GET", "/v1/audit/export", {**more, **at})
        for name in (*ENTITIES, "user:a-secret"):
            yield Ask("GET", "/v1/entities/resolve", {"uri": name, "threshold": 0, **at})
        yield from memories(at)
        yield from forks(private_life, at)
    yield from changes(head)
    yield Ask("GET", "/v1/export")
    yield Ask("GET", "/v1/export", {"declarations": True})
    for garden in named(private_life):
        yield Ask("GET", f"/v1/gardens/{garden}")
        yield Ask("GET", f"/v1/gardens/{garden}/members")
        yield Ask("GET", "/v1/quarantine", {"garden_id": garden})
        yield Ask("GET", "/v1/facts", {"garden_id": garden})
        asked = {"query": "tea", "garden_id": garden}
        yield Ask("POST", "/v1/recall", body=asked)
        yield Ask("GET", "/v1/recall", {**asked, "token_budget": 100})
        for entity in ENTITIES:
            yield Ask("GET", f"/v1/cards/{entity}", {"scope": SCOPE, "garden_id": garden})
    for path in (
        "/.well-known/stigmem", "/healthz", "/v1/health", "/readyz", "/metrics", "/v1/me",
        "/v1/doctor", "/v1/gardens", "/v1/quarantine", "/v1/profiles", "/v1/decay/policies",
        "/v1/relations/set-valued", "/v1/auth/keys", "/v1/auth/agent-keys", "/v1/embeddings",
        "/v1/auth/keys/expiring-soon", "/openapi.json", "/docs", "/", "/ui", "/ui/",
        "/v1/federation/peers",
        "/ui/licences.txt", "/v1/time-travel/timeline",
        "/v1/federation/manifest/stigmem://acme.example/org", "/.well-known/stigmem-manifest.json",
    ):  # fmt: skip
        yield Ask("GET", path)
    yield Ask("GET", "/v1/mcp/connectors")
    yield Ask("POST", "/v1/auth/oidc/exchange", body={})
    yield Ask("GET", "/v1/admin/cid-backfill/status")
    erasing = ("/v1/erasures", "/v1/erasures/none", "/v1/legal-holds")
    yield from (Ask("GET", path) for path in erasing)
    yield from journals()
    yield from log_pages(head)
    for name in (*ENTITIES, "intent:none"):
        yield Ask("GET", f"/v1/intents/{name}")
    for kind in ("decay", "lint"):
        yield Ask("GET", f"/v1/{kind}/jobs/{ABSENT}")
    yield Ask("GET", "/v1/profiles/default")
    yield Ask("GET", "/v1/decay/policies/none")
    hook = {"target": SCOPE, "on_change": "webhook", "delivery_address": "http://10.0.0.1/"}
    yield Ask("POST", "/v1/subscriptions", body=hook)
    yield Ask("GET", "/v1/recall/receipts", {"limit": 500})
    yield from (
        Ask("GET", f"/v1/subscriptions{path}")
        for path in ("", f"/{ABSENT}", f"/{ABSENT}/events", f"/{ABSENT}/stream")
    )
    yield from (Ask("GET", f"/v1/federation/{name}") for name in ("streams", "events", "digests"))
    yield Ask("POST", "/v1/recall/feedback", body={"receipt_id": ABSENT, "answer": "tea"})
    yield Ask("POST", "/v1/recall/feedback", body={"cited": [ABSENT]})
    yield from (Ask("GET", path) for path in ("/v1/admin/snapshots", "/v1/replication/snapshots"))
    yield Ask("GET", "/v1/replication/snapshots/1")
    yield Ask("GET", f"/v1/recall/receipts/{ABSENT}")
    yield Ask("POST", f"/v1/recall/receipts/{ABSENT}/replay")


def memories(at: dict[str, Any]) -> Iterator[Ask]:
    """Episodes, deltas and rules."""
    for user in USERS:
        for more in ({}, {"limit": 1}, {"session": "s1"}, {"agent": "rag", "scope": SCOPE}):
            yield Ask("GET", "/v1/episodes", {"user": user, **more, **at})
        for status in ("applied", "rejected"):
            yield Ask("GET", "/v1/deltas", {"user": user, "status": status, **at})
        yield Ask("GET", "/v1/deltas/facts", {"user": user, **at})
    for name in NAMES:
        yield Ask("GET", f"/v1/episodes/{name}", at)
        yield Ask("GET", "/v1/deltas", {"episode_id": name, **at})
    yield Ask("GET", "/v1/deltas", {"limit": 1, **at})
    for path in ("rules", "rules/none", "status"):
        yield Ask("GET", f"/v1/consolidation/{path}", at)
    for more in ({}, {"limit": 1}, {"tier": "weekly", "source": SOURCES[0]}):
        yield Ask("GET", "/v1/summaries", {**more, **at})


def forks(private_life: Life, at: dict[str, Any]) -> Iterator[Ask]:
    """What-if questions that state or retract visible and hidden facts."""
    recall = {"query": "tea and secrets", "scope": SCOPE, "min_confidence": 0.0}
    said = {"op": "assert", **fact(entity=ENTITIES[1], relation=RELATIONS[0], v="tea")}
    yield Ask("POST", FORK, body={"suppose": [said], "recall": recall, **at})
    swept = {"op": "sweep", "scope": SCOPE, "ttl_seconds": 0}
    yield Ask("POST", FORK, body={"suppose": [said, swept], "state": {"limit": 500}, **at})
    for name, _ in (*private_life.open[:1], *private_life.hidden[:2]):
        gone = {"op": "retract", "id": name}
        yield Ask("POST", FORK, body={"suppose": [gone], "state": {}, **at})
    for garden in GARDENS:
        inside = {**said, "garden_id": garden}
        yield Ask("POST", FORK, body={"suppose": [inside], "state": {}, **at})


def journals() -> Iterator[Ask]:
    """The log as an auditor sees it, after the node's first event, which differs."""
    for more in ({}, {"limit": 3}, {"principal": MEMBER}, {"event_type": "fact_retract"}):
        yield Ask("GET", "/v1/admin/audit", {"cursor": 1, **more})


def searches(at: dict[str, Any]) -> Iterator[Ask]:
    """Parts of names and values, public and private."""
    for words in ("tea", "secret", "user a", "chief of t", "keeper"):
        yield Ask("GET", "/v1/search", {"q": words, **at})
        yield Ask("GET", "/v1/search", {"q": words, "scope": SCOPE, "limit": 1, **at})


def log_pages(head: int) -> Iterator[Ask]:
    """The log as a reader sees it, newest first."""
    for more in ({}, {"limit": 2}, {"kind": "fact_retracted"}, {"actor": MEMBER}, {"before": 9}):
        yield Ask("GET", "/v1/log", more)
    for entity in ENTITIES:
        yield Ask("GET", "/v1/log", {"entity": entity})
    for position in range(2, head + 1):
        yield Ask("GET", f"/v1/log/{position}")


def summaries(at: dict[str, Any]) -> Iterator[Ask]:
    """Overviews of whole entities and scopes."""
    for entity in ENTITIES:
        yield Ask("GET", f"/v1/cards/{entity}", {"scope": SCOPE, **at})
        yield Ask("GET", f"/v1/time-travel/entities/{entity}", at)
        yield Ask("GET", "/v1/facts", {"entity": entity, "relation": "stigmem:memory:card", **at})
    yield Ask("POST", "/v1/lint", body={"scope": SCOPE, "stale_lookahead_s": 10**8, **at})
    yield Ask("GET", f"/v1/scopes/{SCOPE}/synthesize", {"include_expired": True, **at})
    yield Ask("GET", "/v1/scopes/team/synthesize", {"include_expired": True, **at})
    yield Ask("GET", f"/v1/cards/{ENTITIES[0]}", {"scope": "team", **at})
    yield Ask("GET", "/v1/time-travel/state", {"include_retracted": True, **at})


def changes(head: int) -> Iterator[Ask]:
    """Changes between two moments."""
    for start in (1, max(head - 6, 1)):
        yield Ask("GET", "/v1/time-travel/diff", {"from": f"position:{start}"})


STATEMENTS = (
    "SELECT * EXCLUDE (hash) FROM events ORDER BY position",
    "SELECT * FROM facts ORDER BY from_position",
    "SELECT * FROM recalls ORDER BY position",
)


def statements() -> Iterator[Ask]:
    """SQL over the log; each costs a process, so they are few."""
    for sql in STATEMENTS:
        yield Ask("POST", "/v1/time-travel/sql", body={"sql": sql})


def named(private_life: Life) -> list[str]:
    """Every name of a garden, and an unused one."""
    uris = [f"stigmem://127.0.0.1:8765/garden/{slug}" for slug in GARDENS]
    return [
        *GARDENS,
        *private_life.gardens.values(),
        *(uri.replace("/", "%2F") for uri in uris),
        "none",
    ]


def lists(at: dict[str, Any]) -> Iterator[Ask]:
    everything = {"include_contradicted": True, "include_expired": True, "include_retracted": True}
    for more in (
        {}, everything, {"entity": ENTITIES[0]}, {"relation": RELATIONS[1], **everything},
        {"source": MEMBER, **everything}, {"prefer": "hlc"}, {"min_confidence": 0.5},
        {"limit": 2, **everything}, {"tail": True, "limit": 1}, {"attested": False},
    ):  # fmt: skip
        yield Ask("GET", "/v1/facts", {**more, **at})
    for status in ("unresolved", "resolved"):
        yield Ask("GET", "/v1/conflicts", {"status": status, "limit": 1, **at})
        yield Ask("GET", "/v1/conflicts", {"status": status, **at})


def recalls(at: dict[str, Any]) -> Iterator[Ask]:
    base = {"scope": SCOPE, "explain": True, "min_confidence": 0.0, "track": False, **at}
    for profile in PROFILES:
        for query in QUERIES:
            body = {"query": query, "profile": profile, "depth": 2, **base}
            yield Ask("POST", "/v1/recall", body=body, headers={"Stigmem-Verify": "full"})
        about = {"query": "tea", "entity": ENTITIES[0], "profile": profile, **base}
        yield Ask("POST", "/v1/recall", body=about)
        few = {"query": "secrets", "token_budget": 60, "limit": 2, "profile": profile, **base}
        yield Ask("POST", "/v1/recall", body=few)
    for profile in ("abmind", "abmind-head"):
        for keywords in (["tea"], ["tea secre"], ["secretz", "tea"]):
            body = {"query": "q", "translated": keywords, "original": "secret", "limit": 1}
            yield Ask("POST", "/v1/recall", body={**body, "profile": profile, **base})
        body = {"query": "tea", "topic": "general", "profile": profile}
        yield Ask("POST", "/v1/recall", body={**body, **base})
    for keywords in (["tea"], ["secrets", "keeper"], ["tea keeper secretz"]):  # what is common?
        body = {"query": "q", "translated": keywords, "intent": "ambient", "profile": "naming"}
        yield Ask("POST", "/v1/recall", body={**body, **base})
    yield Ask("POST", "/v1/recall", body={"query": "tea", "scope": "local", "track": False, **at})
    low = {"query": "tea", "scope": "*", "track": False, "max_classification": 0, **at}
    yield Ask("POST", "/v1/recall", body=low)
    yield Ask("POST", "/v1/recall", body={**low, "scope": "team", "max_classification": 3})
    yield Ask("GET", "/v1/recall", {"query": "tea", "token_budget": 500, "scope": "*", **at})


def writes(private_life: Life) -> Iterator[Ask]:
    """An outsider's attempts on private facts, and indirect probes for them."""
    for ttl in ({"ttl_seconds": 0}, {"min_confidence": 0.95}):
        yield Ask("POST", "/v1/decay/sweep", {"dry_run": True, "scope": SCOPE, **ttl})
    for name, cid in private_life.hidden[:4]:
        yield Ask("POST", f"/v1/facts/{name}/retract", body={})
        again = {"Idempotency-Key": name}
        yield Ask("POST", f"/v1/facts/{name}/retract", body={}, headers=again)
        yield Ask("POST", f"/v1/facts/{name}/retract", body={}, headers=again)
        yield Ask("POST", "/v1/facts/batch", body=[{"op": "retract", "id": name}])
        yield Ask("POST", f"/v1/quarantine/{name}/admit")
        yield Ask("POST", f"/v1/quarantine/{name}/reject")
        parents = [{"hash": cid, "fact_id": name}]
        for n, entity in enumerate(ENTITIES):
            yield Ask("POST", "/v1/facts", body=fact(entity=entity, v=f"{n}", derived_from=parents))
    for conflict in hidden_conflicts(private_life):
        path = f"/v1/conflicts/{conflict}/resolve"
        yield Ask("POST", path, body={"new_value": {"type": "string", "v": "mine"}})
    for garden in named(private_life):
        yield Ask("POST", "/v1/facts", body=fact(garden_id=garden))
        yield Ask("DELETE", f"/v1/gardens/{garden}")
        yield Ask("POST", f"/v1/gardens/{garden}/members", body={"entity_uri": OUTSIDER})
        yield Ask("PATCH", f"/v1/gardens/{garden}/members/{MEMBER}", body={"role": "reader"})
        yield Ask("DELETE", f"/v1/gardens/{garden}/members/{MEMBER}")
        for action in ("promote", "reject"):
            body = {"fact_id": private_life.hidden[0][0] if private_life.hidden else ABSENT}
            yield Ask("POST", f"/v1/gardens/{garden}/{action}", body=body)
    yield from memory_writes(private_life)
    view = private_life.node.reader.pin()
    for row in copies(private_life, private_texts(private_life)):
        yield Ask("POST", "/v1/facts", body=row)
        other = {"type": "string", "v": f"not what {row['source']} says"}
        yield Ask("POST", "/v1/facts", body={**row, "value": other, "confidence": 1.0})
    parents = [{"hash": cid} for _, cid in private_life.hidden]
    for row in copies(
        private_life, np.flatnonzero(view.garden < 0)
    ):  # as if derived from its own child
        yield Ask("POST", "/v1/facts", body={**row, "derived_from": parents})
    yield Ask("GET", "/v1/facts", {"include_contradicted": True, "include_retracted": True})


def memory_writes(private_life: Life) -> Iterator[Ask]:
    """Names that private episodes, summaries and facts also have."""
    for name in SUMMARIES:
        for text in ("chief of tea", None):
            said = [{"name": name, "text": text}]
            yield Ask("POST", "/v1/summaries", body={"summaries": said, "scope": SCOPE})
    for name in NAMES:
        yield Ask("POST", "/v1/episodes/accesses", body={"episodes": [name]})
        for user in USERS:
            body = {"user": user, "session": "s1", "agent": "rag", "content": "x", "id": name}
            stamp = {"timestamp": "2026-01-01T00:00:00Z", "scope": SCOPE}
            yield Ask("POST", "/v1/episodes", body={**body, **stamp})
    for name in (*NAMES, *(fact_id for fact_id, _ in private_life.hidden[:3])):
        delete = {
            "kind": "delete",
            "replaces": [name],
            "source_episode_ids": [name],
            "promotion_ts": "2026-01-01T00:00:00Z",
            "rule_id": "by-hand",
            "confidence": 1.0,
        }
        body = {"user": USERS[0], "agent": "rag", "scope": SCOPE, "deltas": [delete]}
        yield Ask("POST", "/v1/deltas", body=body)


def hidden_conflicts(private_life: Life) -> list[str]:
    with private_life.node.reader.pool.connection() as db:
        rows = db.execute("SELECT conflict_id FROM conflicts WHERE garden_id IS NOT NULL")
        return [str(row[0]) for row in rows]


def copies(private_life: Life, slots: np.ndarray) -> list[dict[str, Any]]:
    """Public assertions with the content of facts."""
    rows = private_life.node.reader.rows(
        private_life.node.reader.pin().from_position[slots].tolist()
    )
    bodies: list[dict[str, Any]] = []
    for row in rows[:6]:
        value: dict[str, Any] = {"type": row.value_type, "v": row.value_v}
        if row.value_type == "number":
            value["v"] = float(row.value_v)
        named = {"entity": row.entity, "relation": row.relation, "source": row.source}
        bodies.append(
            {**named, "scope": row.scope, "value": value, "confidence": row.base_confidence}
        )
    return bodies


def answers(life: Life, ask: Ask) -> tuple[int, dict[str, str], Any]:
    """Status, relevant headers and body, without parts that differ between any two runs."""
    # Which cards are ready depends on timing: recall queues a missing one.
    assert life.live.service().cards.queue.settle(WRITTEN_SECONDS_MAX)
    options = {"params": ask.params, "json": ask.body, "headers": ask.headers}
    answer = life.live.call(ask.method, ask.path, key=life.key, **options)
    if answer.status_code == 400 and ask.path == "/v1/time-travel/sql":
        # An overloaded machine may kill its process.
        answer = life.live.call(ask.method, ask.path, key=life.key, **options)
    text = answer.text.replace(life.node.identity.node_id, "NODE").replace(life.live.url, "URL")
    for position, digest in episode_hashes(life):  # events are salted: no two runs agree
        text = text.replace(digest, f"EPISODE {position}")
    text = re.sub(r'"(recall_id|receipt_id|error_id)":"[^"]*"', r'"\1":""', text)
    text = re.sub(r'"milliseconds":[0-9.e+-]+', '"milliseconds":0', text)
    text = re.sub(r'"(key_id|public_key)":"[^"]*"', r'"\1":""', text)
    if ask.path == "/v1/log":  # the first event is the node's own
        text = text.replace(id_text(life.node.log.read(0, 1)[0].event_id), "FIRST")
    if ask.path.startswith("/v1/log/"):  # events are salted here as well
        text = re.sub(r'"((?:prev_|payload_)?hash)":"[^"]*"', r'"\1":""', text)
    if ask.path == MANIFEST:  # each node signs its own; the rest is compared
        text = re.sub(r'"signature":"[^"]*"', '"signature":""', text)
    if ask.path == FORK and answer.status_code == 200:
        for item in answer.json()["supposed"]:  # every fork makes its own ids
            text = text.replace(item["fact_id"] or ABSENT, "SUPPOSED")
        known = life.node.reader.image.facts.slot_of
        text = IDS.sub(lambda found: found[0] if found[0] in known else "SUPPOSED", text)
    if ask.path.startswith("/v1/auth/"):
        text = re.sub(r'"id":"[^"]*"', '"id":""', text)
    if ask.path == "/metrics":
        kept = [line for line in text.split("\n") if not _OF_THE_PROCESS.search(line)]
        text = "\n".join(kept)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name.lower() not in ("date", "content-length")
    }
    return answer.status_code, headers, text


def episode_hashes(life: Life) -> list[tuple[int, str]]:
    with life.node.reader.pool.connection() as db:
        rows = db.execute("SELECT position, hash FROM episodes ORDER BY position")
        return [(int(str(position)), str(digest)) for position, digest in rows]


def same(private_life: Life, neutral_life: Life, ask: Ask) -> None:
    """The same bytes, page after page."""
    while True:
        one, other = answers(private_life, ask), answers(neutral_life, ask)
        assert one == other, (ask, one, other)
        cursor = None
        if one[0] == 200 and ask.path in ("/v1/facts", "/v1/conflicts") and ask.method == "GET":
            page = json.loads(one[2])
            cursor = page["cursor"] if page.get("facts") or page.get("conflicts") else None
        listed = ("/v1/episodes", "/v1/deltas", "/v1/summaries")
        if one[0] == 200 and ask.path in listed and ask.method == "GET":
            cursor = json.loads(one[2])["cursor"]
        if one[0] == 200 and ask.path == "/v1/audit":
            cursor = json.loads(one[2])["cursor"]
        if one[0] == 200 and ask.path == "/v1/admin/audit":
            cursor = json.loads(one[2])["next_cursor"]
        if cursor is None or ask.params.get("tail"):
            return
        ask = Ask(ask.method, ask.path, {**ask.params, "cursor": cursor})


QUICK = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def declared(life: Life, ask: Ask) -> list[str]:
    """Lines of an export without trust settings, which the other world replaces by silent
    events."""
    status, _, text = answers(life, ask)
    assert status == 200
    return [line for line in text.splitlines() if not line.startswith('{"op":"trust"')]
