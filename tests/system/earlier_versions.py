"""Data of earlier versions, and how this version reads it.

``python -m tests.system.earlier_versions`` writes ``fixtures/versions/VERSION`` with the present
code: a data directory with a long history, its export, and the result of ``observed``.
"""

import base64
import gzip
import json
import random
import shutil
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.directory import PLACE_FILE, HeldDirectory
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import (
    SCHEMA_VERSIONS,
    AgentKeySet,
    FactFeedback,
    LegalHoldSet,
    NodeKeyRotated,
    WebhookProgress,
    WebhooksDelivered,
)
from engramlog.projections.archive.archive import Archive
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.moment import LIVE, format_instant
from engramlog.projections.tables.registry import PROJECTORS
from engramlog.projections.writing.commands import Done
from tests.worlds.federation.network import Link, Member
from tests.worlds.histories import asserted
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.organisations import DAY_US, Org
from tests.worlds.pasts import MORE, RULE, Past, patient
from tests.worlds.private_steps import ENTITIES, RELATIONS, SCOPE, SOURCES, USERS, VALUES, Step
from tests.worlds.processes import ROOT, engramlog

VERSIONS = ROOT / "fixtures" / "versions"
SEGMENT_EVENTS = 128
"""Small enough to seal a part of the archive."""
LIVED = (
    "fact", "fact", "fact", "classified", "classified", "reclassify", "retract", "resolve", "sweep",
    "recall", "review", "episode", "delta", "delta", "look", "summary", "memory", "memory", "merge",
)  # fmt: skip
MOVES = 150
SQL_PATH = "/v1/time-travel/sql"
SEED = 2
"""Produces all kinds of events except ``RARE``."""
RARE = frozenset({"foreign_page_received", "peer_equivocated", "replica_promoted"})


def unpack(folder: Path, data: Path) -> Path:
    """The data directory in a version's folder, as its node closed it."""
    with tarfile.open(folder / "node.tar.xz") as archive:
        archive.extractall(data, filter="data")
    return data


def serve(data: Path, now_us: int) -> LiveNode:
    """The node in a directory at a given time. It writes no events by itself."""
    live = LiveNode(data, clock=FixedClock(now_us), auth_required=True, explain_permission="read")
    patient(live)
    return live


def expected_of(folder: Path) -> dict[str, Any]:
    """A version folder's expectations."""
    return json.loads(gzip.decompress((folder / "expected.json.gz").read_bytes()))


def observed(live: LiveNode, asked: list[dict[str, Any]]) -> dict[str, Any]:
    """A node's content, and its answers to questions."""
    node = live.node
    view = node.reader.pin()
    digests = node.reader.digests()
    head = node.log.head().position
    return {
        "now_us": node.clock.now_us(),
        "events": head,
        "heads": {
            stream: [each.stream_seq, each.hash.hex()]
            for stream, each in sorted(node.log.stream_heads().items())
        },
        "live_facts": int((view.to_position == LIVE).sum()),
        "projectors": {
            each.name: {
                "version": each.version,
                "tables": {table: digests.tables[table] for table in each.tables},
            }
            for each in PROJECTORS
        },
        "local": digests.local,
        "shared": digests.shared,
        "answers": [{**each, **answer(live, each)} for each in asked],
    }


def answer(live: LiveNode, question: dict[str, Any]) -> dict[str, Any]:
    """Status and body of an answer; of a recall the ids of its facts, of SQL the rows."""
    path = question["path"]
    body, params = question.get("body"), question.get("params")
    got = live.call(question["method"], path, key=question["key"], params=params, json=body)
    told: Any = got.json()
    if path == "/v1/recall":
        told = [each["fact"]["id"] for each in told["facts"]]
    if path == SQL_PATH:
        told = got.json()["rows"]
    return {"status": got.status_code, "answer": told}


def questions(keys: tuple[str, ...], middle: int) -> list[dict[str, Any]]:
    """At the head and in the middle of the log, with each of the keys."""
    asked: list[dict[str, Any]] = []
    for key in keys:
        for moment in ({}, {"as_of": f"position:{middle}"}):
            for path, params in (
                ("/v1/facts", {"limit": 500}),
                ("/v1/facts", {"entity": ENTITIES[0], "include_retracted": True, "limit": 100}),
                ("/v1/conflicts", {"status": "unresolved"}),
                ("/v1/conflicts", {"status": "resolved"}),
                (f"/v1/cards/{ENTITIES[1]}", {"scope": SCOPE, "refresh": True}),
                ("/v1/graph/neighbors", {"entity": ENTITIES[0], "scope": SCOPE, "depth": 2}),
                (f"/v1/time-travel/entities/{ENTITIES[2]}", {}),
                ("/v1/episodes", {"user": USERS[0]}),
                ("/v1/deltas", {"user": USERS[0], "status": "applied"}),
                ("/v1/summaries", {}),
                ("/v1/aliases", {}),
            ):
                asked.append(
                    {"method": "GET", "path": path, "key": key, "params": {**params, **moment}}
                )
            for query in ("who keeps the tea and the secrets?", "atlas ledger"):
                body = {"query": query, "scope": SCOPE, "track": False, **moment}
                asked.append({"method": "POST", "path": "/v1/recall", "key": key, "body": body})
        sql = {"sql": "SELECT kind, count(*) FROM events GROUP BY kind ORDER BY kind"}
        asked.append({"method": "POST", "path": SQL_PATH, "key": key, "body": sql})
    return asked


def lived(data: Path) -> Past:
    """Every move of the tests' histories, and events that only peers and admins write."""
    past = Past(data)
    past.node.writer._identifiers = IdentifierSource(past.node.log.origin)
    chance = random.Random(SEED)
    for garden in (0, 1):
        past.move(Step("garden", True, garden=garden))
    for _ in range(MOVES):
        past.move(move(chance, LIVED))
    for _ in range(MOVES):
        past.move(move(chance, LIVED + MORE))
    administer(past)
    hear_from_a_peer(past)
    for kind in ("erase", "erase-entity"):
        past.move(Step(kind, False, entity=3, pick=7))
    for _ in range(MOVES // 10):
        past.move(move(chance, LIVED + MORE))
    return past


def move(chance: random.Random, kinds: tuple[str, ...]) -> Step:
    """A step of any of these kinds."""
    kind = chance.choice(kinds)
    return Step(
        kind=kind,
        private=kind not in MORE and chance.random() < 0.5,
        entity=chance.randrange(len(ENTITIES)),
        relation=chance.randrange(len(RELATIONS)),
        value=chance.randrange(len(VALUES)),
        source=chance.randrange(len(SOURCES)),
        garden=chance.randrange(2),
        pick=chance.randrange(51),
        confidence=chance.choice((1.0, 1.0, 0.9, 0.4, 0.0)),
        derived=chance.random() < 0.5,
    )


def administer(past: Past) -> None:
    """Events of admins, and of agents with their own keys."""
    node, fact = past.node, past.open[-1][0]
    agent_key = base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("=")
    rotation = node.identity.rotate()
    for intent in (
        FactFeedback(cited=[fact]),
        LegalHoldSet(target_kind="fact", target=fact),
        LegalHoldSet(target_kind="entity", target="user:held"),
        LegalHoldSet(target_kind="entity", target="user:held", held=False),
        AgentKeySet(key_id=str(uuid4()), entity_uri="agent:signs", public_key=agent_key),
        NodeKeyRotated(
            previous_public_key=rotation.previous_public_key,
            public_key=rotation.public_key,
            signature=rotation.signature,
        ),
    ):
        (done,) = node.write(intent)
        assert isinstance(done, Done), done
    batch = [{"op": "retract", "id": each} for each in (past.open[-2][0], "no-such-fact")]
    ask(past, "POST", "/v1/facts/batch", batch, headers={"Idempotency-Key": "half refused"})
    watched = {"target": SCOPE, "on_change": "wake", "delivery_address": "agent:me"}
    subscribed = ask(past, "POST", "/v1/subscriptions", watched, key=past.key)
    node.write(WebhooksDelivered([WebhookProgress(subscribed["id"], node.log.head().position)]))
    now_us = past.clock.now_us()
    dated = {"issued_at": format_instant(now_us), "expires_at": format_instant(now_us + DAY_US)}
    ask(past, "PUT", "/v1/federation/manifest", Org().manifest(**dated))
    past.move(Step("rule", False, pick=1))
    ask(past, "POST", f"/v1/consolidation/rules/{RULE}/run", {})
    garden = ask(past, "POST", "/v1/gardens", {"slug": "closed", "name": "closed", "scope": SCOPE})
    ask(past, "DELETE", f"/v1/gardens/{garden['id']}")
    for entity in ("user:gone", "user:back"):
        tombstone = ask(past, "POST", "/v1/tombstones", {"entity_uri": entity})
    ask(past, "POST", f"/v1/tombstones/{tombstone['id']}/revoke", {"reason": "a mistake"})
    wanted = {"subject": "agent:crawler"}
    ask(past, "POST", "/v1/capabilities", wanted, key=past.key)
    token = ask(past, "POST", "/v1/capabilities", wanted, key=past.key)
    ask(past, "POST", f"/v1/capabilities/{token['token_id']}/revoke", {}, key=past.key)
    spare = {"raw_key": "s" * 40, "entity_uri": "agent:spare", "permissions": ["read"]}
    issued = ask(past, "POST", "/v1/auth/keys", spare)
    ask(past, "DELETE", f"/v1/auth/keys/{issued['id']}")


def ask(
    past: Past,
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str = CONTROL_TOKEN,
    **options: Any,
) -> Any:
    """One request that must succeed."""
    got = past.live.call(method, path, key=key, json=body, **options)
    assert got.is_success, f"{path}: {got.text}"
    return got.json() if got.content else None


def hear_from_a_peer(past: Past) -> None:
    """Pages of another node's log: facts, one of them disputed, and a retraction."""
    folder = past.path.parent
    here = Member(folder, past.path.name, clock=past.clock, node=past.node)
    there = Member(folder, "peer")
    try:
        there.clock.advance(past.clock.now_us() - there.clock.now_us())
        for number, value in enumerate(VALUES[:4]):
            there.node.write(asserted(ENTITIES[number % 2], value=value, scope="company"))
        here.meet(there)
        there.meet(here)
        here.pull(Link(here, there))
    finally:
        there.close()


def make(folder: Path) -> None:
    """Write a version's folder, and check that two nodes from it give equal answers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "node"
        past = lived(data)
        try:
            keys, now_us = (past.key, past.member_key), past.clock.now_us()
        finally:
            past.close()
        HeldDirectory.accept_copy(data)  # makes streams of two epochs
        middle = complete(data, FixedClock(now_us))
        with tarfile.open(folder / "node.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(data.rglob("*")):
                if path.name not in ("lock", PLACE_FILE) and not path.is_dir():
                    archive.add(path, str(path.relative_to(data)), filter=anonymous)
        exported = engramlog(
            "export", "--data", unpack(folder, Path(name) / "exporting"), "--quiet"
        )
        assert exported.returncode == 0, exported.stderr
        pack(folder / "export.jsonl.gz", exported.stdout.encode())
        seen: list[dict[str, Any]] = []
        for number in range(2):
            live = serve(unpack(folder, Path(name) / f"copy{number}"), now_us)
            try:
                seen.append(observed(live, questions(keys, middle)))
            finally:
                live.close()
    assert seen[0] == seen[1], "an answer holds what changes from one asking to the next"
    pack(folder / "expected.json.gz", json.dumps(seen[0], sort_keys=True).encode())


def complete(data: Path, clock: FixedClock) -> int:
    """Vectors, sealed segments and a snapshot for a closed node; the middle of its log."""
    node = Node.open(data, clock=clock, embedding=EmbeddingSettings(provider="minilm"))
    try:
        assert node.embeddings is not None
        current = node.embeddings._current
        assert current is not None
        assert current.worker.wait(node.log.head().position, 60)
        assert current.worker.status().vectors
        assert unwritten(node) <= RARE
        head = node.log.head().position
        Archive(node.directory, node.log, segment_events=SEGMENT_EVENTS).seal()
        node.snapshot(head // 2)
    finally:
        node.close()
    return head // 2


def unwritten(node: Node) -> set[str]:
    """Kinds of events that its log does not have."""
    return set(SCHEMA_VERSIONS) - {event.kind for event in node.log.iterate(0)}


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without whose file it was, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def pack(path: Path, content: bytes) -> None:
    """Gzip with no time in it."""
    path.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    make(VERSIONS / version("engramlog"))
