"""Graphs to walk: a real one that changed for years, and a made-up one with few large hubs."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.workload import command_of
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.writing.commands import AssertFact, Command, RetractMatching

CONGRESS = Path(__file__).resolve().parents[2] / "shared" / "data" / "congress"
CONGRESS_SCOPE = "public"
POWER_SCOPE = "local"
RELATIONS = frozenset({"member_of", "part_of", "party", "holds_office"})
"""The relations of the congress stream that lead to entities with further facts."""
ENTITIES_PER_EDGE = 0.2
STEEPNESS = 0.75
"""The chance of the entity of rank r is proportional to r to minus this."""
_PAGE = 10_000


def congress_changes() -> Iterator[Command]:
    """Edges of the stream, stated and retracted in its order."""
    with gzip.open(CONGRESS / "events.jsonl.gz", "rt") as lines:
        for line in lines:
            event = json.loads(line)
            if event["r"] not in RELATIONS:
                continue
            stated = _edge(
                normalize_uri(f"stigmem://congress.example/{event['s']}"),
                f"congress:{event['r']}",
                _named(event["r"], event["o"]),
                CONGRESS_SCOPE,
            )
            if event["op"] == "assert":
                yield stated
            else:
                yield RetractMatching(
                    entity=stated.fact.entity,
                    relation=stated.fact.relation,
                    value=stated.fact.value,
                    scope=stated.fact.scope,
                    source=stated.fact.source,
                )


def _named(relation: str, text: str) -> str:
    name = text.strip("/ ")  # an office without a district ends with a slash
    name = name if "/" in name else f"{relation}/{name or 'none'}"
    return normalize_uri(f"stigmem://congress.example/{name}")


def power_law(edges: int, seed: int = 5) -> Iterator[list[FactAsserted]]:
    """``edges`` different edges in pages; both ends are drawn from one steep distribution."""
    chance = np.random.default_rng(seed)
    entities = max(10, int(edges * ENTITIES_PER_EDGE))
    shares = np.arange(1, entities + 1, dtype=np.float64) ** -STEEPNESS
    reach = np.cumsum(shares) / shares.sum()
    names = chance.permutation(entities)
    seen: set[tuple[int, int]] = set()
    page: list[FactAsserted] = []
    while len(seen) < edges:
        drawn = names[np.searchsorted(reach, chance.random((_PAGE, 2)))].tolist()
        for start, end in drawn:
            if start == end or (start, end) in seen or len(seen) == edges:
                continue
            seen.add((start, end))
            page.append(_event(power_name(start), power_name(end)))
        yield page
        page = []


def power_name(number: int) -> str:
    """The entity of a number."""
    return f"stigmem://bench.example/person/{number:07d}"


def _edge(start: str, relation: str, end: str, scope: str) -> AssertFact:
    return command_of(
        {
            "entity": start,
            "relation": relation,
            "value": {"type": "ref", "v": end},
            "source": "stigmem://bench.example/agent/ann",
            "scope": scope,
        }
    )


def _event(start: str, end: str) -> FactAsserted:
    return _edge(start, "rel:knows", end, POWER_SCOPE).fact
