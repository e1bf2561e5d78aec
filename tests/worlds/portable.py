"""The meaning of a log without node-local data, for logs that went through a file.

Facts and episodes are named by their place among those that travel, and positions by their time. A
rule's watermark is named by the last episode before it.
"""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from engramlog.api.node.node import Node
from engramlog.api.transfer.exporting import RESOLUTION_PREFIX, export_lines
from engramlog.api.transfer.importing import Importer, ImportReport, Options
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.projections.moment import LIVE
from tests.worlds.histories import START_US

OWN = frozenset(
    {
        "conflict_id",
        "hlc",
        "stream",
        "stream_seq",
        "origin",
        "hash",
        "received_from",
        "attestation",
        "source_trust",
        "warrant",
    }
)
"""Columns that are a node's own."""
WHO = frozenset({"actor", "set_by", "resolved_by", "reviewed_by"})
"""Who wrote it: an import writes plain facts and declarations itself."""
SAID_BY = ("episodes", "deltas", "delta_rejections", "consolidation_rules", "summaries")
"""Tables that keep the writer."""
POSITIONS = frozenset({"position", "from_position", "to_position", "set_aside", "replaced",
                       "resolved_position"})  # fmt: skip
TABLES = (
    "facts", "fact_retractions", "conflicts", "derivations", "entity_edges", "fact_attributes",
    "fact_accesses", "fact_feedback", "episodes", "episode_accesses", "deltas", "delta_sources",
    "memory_facts", "delta_rejections", "consolidation_rules", "consolidation_runs",
    "quarantined_episodes", "summaries", "summary_paragraphs", "gardens", "garden_members",
    "quarantine", "content_reviews", "aliases", "declarations", "trust_policies", "source_trust",
    "decay_sweeps", "legal_holds",
)  # fmt: skip


def meaning(node: Node) -> dict[str, list[Any]]:
    """The tables of a node; nodes of equal memory give equal ones."""
    with node.reader.pool.connection() as db:
        names = _names(db)
        places = [int(str(row[0])) for row in db.execute("SELECT position FROM episodes")]
        tables = {table: _rows(node, db, table, names, places) for table in TABLES}
    begun = {(row["id"], row["from_position"]) for row in map(json.loads, tables["facts"])}
    tables["fact_attributes"] = [
        text
        for text in tables["fact_attributes"]
        if (row := json.loads(text))["attributes"] != "{}"
        # stated without attributes, or not at all
        or (row["fact_id"], row["position"]) not in begun
    ]
    return tables


def _names(db: apsw.Connection) -> dict[str, str]:
    facts = db.execute(
        f"SELECT id FROM facts WHERE entity NOT LIKE '{RESOLUTION_PREFIX}%' ORDER BY from_position"
    )
    names = {str(row[0]): f"fact {number}" for number, row in enumerate(facts)}
    episodes = db.execute("SELECT key, hash, id FROM episodes ORDER BY position")
    for number, (key, digest, name) in enumerate(episodes):
        # An episode without an id has its old key as id.
        called = f"episode {number}"
        names |= {str(key): called, str(digest): f"hash {number}"}
        names |= {str(name): called} if _ID.fullmatch(str(name)) else {}
    settled = f"SELECT id FROM facts WHERE entity LIKE '{RESOLUTION_PREFIX}%'"
    names |= {str(row[0]): "resolution" for row in db.execute(settled)}
    return names


_ID = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _rows(
    node: Node, db: apsw.Connection, table: str, names: dict[str, str], places: list[int]
) -> list[Any]:
    cursor = db.execute(f"SELECT * FROM {table}")
    made: list[str] = []
    for row in cursor:
        columns = [column[0] for column in cursor.description]
        item: dict[str, Any] = {}
        for column, value in zip(columns, row, strict=True):
            if column in OWN or (column in WHO and table not in SAID_BY):
                continue
            item[column] = _shown(node, table, column, value, names, places)
        if table == "facts" and str(item["entity"]).startswith(RESOLUTION_PREFIX):
            continue
        if item.get("fact_id") == "resolution" and table != "conflicts":
            continue  # the resolve line makes it again
        if item.get("key") == "no-such-key":
            continue  # an episode that never existed
        if table == "consolidation_runs":
            del item["quarantined"]  # counted there as well
        if table == "declarations" and item["sort"] == "embedding":
            continue
        made.append(json.dumps(item, sort_keys=True))
    return sorted(made)


def _shown(
    node: Node, table: str, column: str, value: Any, names: dict[str, str], places: list[int]
) -> Any:
    if table == "consolidation_runs" and column in ("from_position", "to_position"):
        return sum(place <= value for place in places)
    if column in POSITIONS and value is not None:
        return "live" if value >= LIVE else node.log.received_at(value)
    if column == "reason" and isinstance(value, str):
        # It may name the note of a settlement, which is made again.
        return _ID.sub(lambda found: names.get(found[0], "resolution"), value)
    if isinstance(value, str):
        return _ID.sub(lambda found: names.get(found[0], found[0]), value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def exported(node: Node) -> list[bytes]:
    """Its log as lines."""
    return [line for _, line in export_lines(node.log)]


@contextmanager
def read_back(lines: list[bytes], folder: Path) -> Generator[tuple[Node, ImportReport]]:
    """A new node with these lines, at their own times."""
    clock = FixedClock(START_US)
    node = Node.open(folder, clock=clock, epoch_clock="file")
    try:
        sink = NodeSink(node, 262_144, clock=clock)
        yield node, Importer(sink, Options(file_clock=True), decode_line).run(iter(lines))
    finally:
        node.close()
