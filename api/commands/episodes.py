"""Episodes, deltas and their facts between the wire and the node: rights and commands."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

import msgspec
import numpy as np
from msgspec import Struct

from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import check_size, source_of
from engramlog.api.commands.attestations import check_unattested
from engramlog.api.commands.garden_access import entered_garden
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.errors import entry, unprocessable
from engramlog.api.schemas.memory import DeltasRequest, EpisodeBody, Triple, TriplesRequest
from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes import reading_deltas
from engramlog.projections.episodes.classifying import UnusableEpisode, check_payload
from engramlog.projections.episodes.delta import (
    AddDelta,
    DeleteDelta,
    MemoryDelta,
    NoopDelta,
    Proposal,
    UpdateDelta,
    stated_id,
)
from engramlog.projections.episodes.episode import FactOfDelta, FactPattern, MemoryFact
from engramlog.projections.episodes.provenance_bundle import ProvenanceError
from engramlog.projections.episodes.stating import as_text, matches, memory_fact
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import kept_from, live
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import Moment, format_instant, parse_instant
from engramlog.projections.writing.memory_commands import ApplyDeltas, RecordEpisodes

FACTS_READ = 500
"""Facts read at once to find those that match a pattern."""
PAYLOAD_REST_BYTES_MAX = 4_096
"""Bytes of a payload besides the fact itself."""
_TRIPLES = UUID("d6a1c7de-40a3-5d0f-8f0e-7b1f53b8c1aa")
_encode = msgspec.json.Encoder().encode


class Where(Struct, frozen=True):
    """A scope, or a garden in it, in which the caller may write."""

    scope: str
    garden_id: str | None


def writable(context: RequestContext, scope: str, garden: str | None) -> Where:
    """The place of a request's writes. Raises ApiError 403, 404."""
    context.check_scope(scope)
    return Where(scope, None if garden is None else entered_garden(context, garden).id)


def recording_of(
    context: RequestContext, where: Where, episodes: Sequence[EpisodeBody]
) -> RecordEpisodes:
    """The command that records episodes; without a timestamp, they happened now."""
    now_us = context.node.clock.now_us()
    for index, episode in enumerate(episodes):
        size = len(episode.content.encode()) + len(_encode(episode.metadata))
        check_size(context, size, f"episode {index}")
    return RecordEpisodes(
        rights=context.authorization,
        undated=frozenset(n for n, episode in enumerate(episodes) if episode.timestamp is None),
        episodes=tuple(
            episode.recorded(
                now_us if episode.timestamp is None else parse_instant(episode.timestamp),
                where.scope,  # pyright: ignore[reportArgumentType]  # checked: a scope
                where.garden_id,
            )
            for episode in episodes
        ),
    )


def application_of(context: RequestContext, request: DeltasRequest) -> ApplyDeltas:
    """The command that applies deltas. Raises ApiError 403, 404, 422."""
    check_unattested(context)
    where = writable(context, request.scope, request.garden_id)
    place = MemoryPlace(request.user, request.agent, where.scope, where.garden_id)
    source = source_of(context, request.source)
    proposals: list[Proposal] = []
    for index, body in enumerate(request.deltas):
        at_us = parse_instant(body.promotion_ts)
        delta = shaped(body, _DELTAS[body.kind], promotion_us=at_us)
        if isinstance(delta, AddDelta | UpdateDelta):
            _check_payload(context, delta.fact_payload, index)
        proposals.append(Proposal(delta, place, stated_id(delta, place), source))
    bundle: dict[str, str] = {} if request.step is None else {"step": str(request.step)}
    return ApplyDeltas(
        scope=where.scope,
        garden_id=where.garden_id,
        rights=context.authorization.alone(),
        proposals=tuple(proposals),
        run_id=request.run_id,
        strict=request.strict,
        single_valued=tuple(request.single_valued),
        bundle=bundle,
    )


_DELTAS: dict[str, type[MemoryDelta]] = {
    "add": AddDelta,
    "update": UpdateDelta,
    "delete": DeleteDelta,
    "noop": NoopDelta,
}


def _check_payload(context: RequestContext, payload: dict[str, Any], index: int) -> None:
    try:
        check_payload(payload)
    except (UnusableEpisode, ProvenanceError) as fault:
        where = ("body", "deltas", index, "fact_payload")
        raise unprocessable([entry("invalid_payload", where, str(fault))]) from fault
    name = payload.get("id")
    if name is not None and (not isinstance(name, str) or not 0 < len(name.encode()) <= 256):
        where = ("body", "deltas", index, "fact_payload", "id")
        raise unprocessable([entry("invalid_payload", where, "must be a text of 1 to 256 bytes")])
    statement = payload.get("object") if payload.get("object") is not None else payload["content"]
    rest = {key: value for key, value in payload.items() if value is not statement}
    if len(_encode(rest)) > PAYLOAD_REST_BYTES_MAX:
        where = ("body", "deltas", index, "fact_payload")
        message = f"a payload may have {PAYLOAD_REST_BYTES_MAX} bytes besides the fact"
        raise unprocessable([entry("invalid_payload", where, message)])
    if isinstance(statement, str):
        check_size(context, len(statement.encode()), "value")


def promotion_of(context: RequestContext, request: TriplesRequest) -> ApplyDeltas:
    """The command that promotes triples: one ``add`` each. Its id derives from the triple, so
    promoting it again changes nothing."""
    check_unattested(context)
    where = writable(context, request.scope, request.garden_id)
    place = MemoryPlace(request.user, request.agent, where.scope, where.garden_id)
    source = source_of(context, request.source)
    now_us = context.node.clock.now_us()
    at_us = now_us if request.promotion_ts is None else parse_instant(request.promotion_ts)
    return ApplyDeltas(
        scope=where.scope,
        garden_id=where.garden_id,
        rights=context.authorization.alone(),
        proposals=tuple(
            _promotion(triple, request.rule_id, place, source, at_us) for triple in request.triples
        ),
        strict=False,
    )


def _promotion(
    triple: Triple, rule_id: str, place: MemoryPlace, source: str, at_us: int
) -> Proposal:
    """The proposal that states a triple as a fact. Its ids follow from the triple, so that a
    repetition changes nothing."""
    statement = f"{triple.subject}|{triple.predicate}|{triple.object}"
    triple_id = triple.triple_id or statement
    parts = (rule_id, place.partition, place.user, place.agent, triple_id)
    name = str(uuid5(_TRIPLES, "\n".join(parts)))
    delta = AddDelta(
        source_episode_ids=[triple_id[:256]],
        promotion_us=at_us,
        rule_id=rule_id,
        confidence=triple.confidence,
        fact_payload={
            "id": name,
            "subject": triple.subject,
            "predicate": triple.predicate,
            "object": triple.object,
        },
    )
    lineage: list[dict[str, Any]] = [
        {
            "triple_id": triple_id,
            "rule_id": rule_id,
            "agent_id": place.agent,
            "promotion_ts": format_instant(at_us),
        }
    ]
    delta_id = str(uuid5(_TRIPLES, "\n".join((*parts, statement, repr(triple.confidence)))))
    return Proposal(delta, place, delta_id, source, lineage=lineage)


def memory_facts(
    context: RequestContext,
    view: View,
    authorization: Authorization,
    moment: Moment,
    pattern: FactPattern,
    *,
    scope: str | None,
    after: int,
    limit: int,
) -> list[tuple[int, MemoryFact]]:
    """The matching facts that the caller may read at the moment, with their positions: oldest
    first, in one ``scope`` if given, after position ``after``."""
    given = context.node.reader.ask(
        reading_deltas.memory_facts_at, moment.position, user=pattern.user, agent=pattern.agent
    )
    by_slot = {
        slot: each
        for each in given
        if scope in (None, each.scope) and (slot := view.slot_of(each.fact_id)) is not None
    }
    slots = live(view, authorization, moment, np.array(sorted(by_slot), dtype=np.int32))
    slots = slots[view.from_position[slots] > after]
    versions = _Versions(context, view, authorization)
    found: list[tuple[int, MemoryFact]] = []
    for start in range(0, len(slots), FACTS_READ):
        some = slots[start : start + FACTS_READ]
        records = context.records(view, some, moment)
        for slot, record in zip(some.tolist(), records, strict=True):
            text = as_text(record.value.v) or ""
            each, position = by_slot[slot], int(view.from_position[slot])
            fact = memory_fact(each, record.relation, record.value.type, text, record.confidence)
            if matches(pattern, fact.payload):
                hidden = versions.hidden_before(each, position)
                version = fact.version - hidden
                found.append((position, msgspec.structs.replace(fact, version=version)))
                if len(found) == limit:
                    return found
    return found


class _Versions:
    """Which facts of a name a caller may not read: they do not count as versions."""

    def __init__(self, context: RequestContext, view: View, authorization: Authorization) -> None:
        self._context, self._view, self._authorization = context, view, authorization
        self._hidden: dict[tuple[str, ...], list[int]] = {}

    def hidden_before(self, fact: FactOfDelta, position: int) -> int:
        """How many of the versions of a fact, which was stated at a position."""
        if fact.version == 1:
            return 0
        place = fact.partition, fact.name, fact.user, fact.agent
        if place not in self._hidden:
            stated = self._context.node.reader.ask(reading_deltas.namesakes, fact)
            kept = kept_from(self._view, self._authorization, list(stated))
            self._hidden[place] = sorted(stated[fact_id] for fact_id in kept)
        return bisect_right(self._hidden[place], position)
