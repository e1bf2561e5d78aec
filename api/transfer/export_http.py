"""A node's facts as import lines, by its public routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from engramlog.api.client.client import Client, ClientError
from engramlog.api.transfer.lines.facts import AssertLine, LineValue
from engramlog.eventlog.kinds import Parent

_encode = msgspec.json.Encoder().encode


def lines_over_http(
    client: Client, *, declarations: bool
) -> tuple[int | None, Iterator[tuple[int, bytes]]]:
    """The number of lines, if known, and each line with its number: the part of the log that the
    key may read. If the node lacks the export route, its present facts.

    Raises:
        ClientError: the node refuses, or is not reachable.
    """
    lines = client.lines("/v1/export", {"declarations": declarations})
    try:
        first = next(lines, None)
    except ClientError as fault:
        if fault.status not in (404, 405) or declarations:
            raise
        return _live_facts(client)
    found = [] if first is None else [first]
    return None, enumerate(chain(found, lines), 1)


def _live_facts(client: Client) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """The number of present facts, and each of them as an ``assert`` line, newest first.

    Only live facts that the key may read: history and retractions need the log. Raises ClientError.
    """
    query: dict[str, object] = {
        "include_expired": True,
        "include_contradicted": True,
        "include_low_trust": True,
        "limit": 500,
    }
    slugs = {garden["id"]: garden["slug"] for garden in client.get("/v1/gardens")}
    pages = client.pages("/v1/facts", query)
    first = next(pages)

    def walk() -> Iterator[tuple[int, bytes]]:
        facts = (fact for page in chain((first,), pages) for fact in page["facts"])
        for done, fact in enumerate(facts, 1):
            yield done, _encode(line_of_record(fact, slugs)) + b"\n"

    return int(first["total"]), walk()


def line_of_record(fact: dict[str, Any], slugs: Mapping[str, str] = {}) -> AssertLine:
    """The ``assert`` line of a fact in wire form; ``slugs``: of gardens by id."""
    value = fact["value"]
    garden = fact.get("garden_id")
    return AssertLine(
        key=fact["id"],
        entity=fact["entity"],
        relation=fact["relation"],
        value=LineValue(value["type"], value.get("v"), value.get("interpret_as", "content")),
        source=fact["source"],
        scope=fact["scope"],
        confidence=fact["confidence"],
        valid_from=fact.get("valid_from"),
        valid_until=fact.get("valid_until"),
        derived_from=[
            Parent(parent["hash"], parent.get("fact_id")) for parent in fact["derived_from"]
        ],
        garden_id=None if garden is None else slugs.get(garden, garden),
        attributes=fact.get("attributes"),
        recorded_at=fact["timestamp"],
    )
