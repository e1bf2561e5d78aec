"""From a recall request to the pipeline's question, and from its answer to every shape."""

import hashlib
from itertools import compress
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from engramlog.api.answers.compact_facts import packed_lines, statement
from engramlog.api.answers.erasure_records import TombstoneNotice
from engramlog.api.answers.fact_record import FactRecord, wire_moment
from engramlog.api.answers.recall.recall_answer import (
    EmbeddingUsed,
    RecalledLines,
    RecallResponse,
    ScoredShortFact,
    ShortRecords,
    StageRun,
)
from engramlog.api.answers.recall.recalled_facts import encoded_each, flat_facts, scored_facts
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.sanitizer_modes import Screen, for_model
from engramlog.api.answers.wire_facts import Volatile, record_of
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.memory_cards import memory_card_of
from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.http.bodies import parse_json, validated
from engramlog.api.http.errors import coded, entry, prefixed, unprocessable
from engramlog.api.schemas.recall import TOKEN_BUDGET_MAX, RecallBody, RecallQuery
from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.moment import format_instant
from engramlog.projections.normalization import EVERY_SCOPE, SCOPES
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.enrichment import EnrichedFact, enrich
from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.request import (
    RecallRequest,
    WeightsError,
    WeightsSumError,
    parse_weights,
)
from engramlog.projections.tables.facts.attributes import PLAIN
from engramlog.projections.text.sanitizing import FREE_TEXTS, clean, stripped

GET_DEPTH_MAX = 2
NOTHING = "The memory holds nothing on this."
NOTHING_ABOUT = (
    "The memory holds nothing on this entity: ask without it, or name it as answers do (user:ann)."
)
TOO_LONG = "It does not fit: raise token_budget."
WEAK = "Weak evidence: none of these may answer the question."


def body_of_query(query: RecallQuery) -> RecallBody:
    """A GET's question as a POST's, within its own limits. Raises ApiError 400
    ``invalid_token_budget``, ``recall_depth_exceeded``, ``invalid_weights``."""
    if query.token_budget < 1:
        raise coded("invalid_token_budget", "token_budget must be at least 1")
    if query.depth is not None and not 0 <= query.depth <= GET_DEPTH_MAX:
        raise coded("recall_depth_exceeded", f"depth must be 0 to {GET_DEPTH_MAX}")
    fields = query.model_dump(exclude={"legacy_format", "fields", "weights"})
    for name in ("scope", "limit"):
        if name not in query.model_fields_set:
            del fields[name]
    fields = {name: fields[name] for name in RecallBody.model_fields if name in fields}
    if query.weights is not None:
        weights = parse_json(query.weights.encode(), "weights")
        if not isinstance(weights, dict):
            raise coded("invalid_weights", "weights must be a JSON object")
        fields["weights"] = weights
    return validated(RecallBody, fields, "query")


def explaining(context: ReadingContext, body: RecallBody) -> bool:
    """Whether the request wants the numbers behind the scores, and the caller may see them."""
    needed = context.service.settings.explaining
    return (body.explain or body.debug) and needed != "none" and context.authorization.may(needed)


def unexplained(context: ReadingContext, body: RecallBody) -> list[str]:
    """A warning if the request wants numbers and does not get them."""
    if explaining(context, body) or not (body.explain or body.debug):
        return []
    needed = context.service.settings.explaining
    why = "switched off" if needed == "none" else f"for callers with {needed} permission"
    return [f"explain and debug are ignored: they are {why} on this node"]


def question_of(
    body: RecallBody,
    profile: str,
    scope: str | None,
    *,
    entity: str | None,
    explain: bool,
) -> RecallRequest:
    """The pipeline's request; ``scope`` overrides the body's. Raises ApiError 400 for a scope that
    does not exist or an empty entity; 422 for weights."""
    try:
        weights = None if body.weights is None else parse_weights(body.weights)
    except WeightsSumError as fault:
        raise coded(fault.code, str(fault)) from fault
    except WeightsError as fault:
        raise unprocessable(
            [entry(fault.code, ["body", "weights"], str(fault), body.weights, code=fault.code)]
        ) from fault
    return shaped(
        body,
        RecallRequest,
        query=body.query if body.translated is None else " ".join(body.translated),
        keywords=tuple(body.translated or ()),
        original=body.original or "",
        stages=None if body.stages is None else frozenset(body.stages),
        scopes=_scopes(scope or body.scope),
        limit=body.limit if "limit" in body.model_fields_set else None,
        weights=weights,
        entity=entity,
        source=None if body.source is None else stored_uri(body.source),
        explain=explain,
        profile=profile,
    )


def _scopes(scope: str) -> frozenset[str] | None:
    """One scope, or None for every readable one."""
    if scope in EVERY_SCOPE:
        return None
    if scope not in SCOPES:
        raise prefixed("invalid_scope", f"must be one of {sorted(SCOPES)}")
    return frozenset({scope})


def check_stages(requested: frozenset[str] | None, profile: Profile) -> None:
    """Raises ApiError 422 if the profile lacks a stage."""
    known = {name for each in profile.stages for name in (each.name, each.label) if name}
    unknown = sorted((requested or frozenset()) - known)
    if unknown:
        message = f"profile {profile.name} has no stage {unknown[0]!r}; it has {sorted(known)}"
        raise unprocessable([entry("stage", ["body", "stages"], message, unknown[0])])


def check_intent(question: RecallRequest, profile: Profile) -> None:
    """Raises ApiError 422 for an ambient question if the profile has no ambient mode."""
    if question.intent == "ambient" and profile.ambient is None:
        message = (
            f"profile {profile.name} has no ambient questions: its document has no 'ambient'; "
            "ask without intent, or with a profile that has it"
        )
        raise unprocessable([entry("intent", ["body", "intent"], message, "ambient")])


class Attached(Struct, frozen=True):
    """What an answer has besides its facts. ``hint``: see ``hint_of``."""

    recall_id: str
    receipt_id: str | None
    hint: dict[str, Any] | None
    warnings: list[str]


def response_of(
    context: ReadingContext,
    body: RecallBody,
    answer: RecallAnswer,
    records: list[FactRecord],
    attached: Attached,
    *,
    channels: bool,
    chain_proof: dict[str, Any] | None,
    tombstone_notices: list[TombstoneNotice],
) -> RecallResponse:
    """The union of every published answer shape. ``channels``: include content and instructions."""
    divergent: frozenset[int] = frozenset(
        answer.card.divergent.tolist() if answer.card is not None else ()
    )
    encoded = encoded_each(records)
    facts = scored_facts(encoded, answer.results)
    response = shaped(
        answer,
        RecallResponse,
        recall_id=attached.recall_id,
        query_hash=hashlib.sha256(body.query.encode()).hexdigest(),
        facts=facts,
        token_budget=body.token_budget,
        tombstone_notices=tombstone_notices,
        chain_proof=chain_proof,
        results=flat_facts(encoded, answer.results, _beside(answer, records), divergent),
        query=body.query,
        request={name: getattr(body, name) for name in RecallBody.model_fields},
        generated_at=format_instant(answer.moment.instant_us),
        token_budget_used=answer.tokens_used,
        **memory_card_of(answer.card, context.service.settings.sanitizer_mode),
        scores_debug=_debugged(answer) if body.debug and explaining(context, body) else None,
        embedding=_embedding(context),
        stages=[
            shaped(stage, StageRun, milliseconds=round(stage.milliseconds, 3))
            for stage in answer.stages
        ],
        search_skipped=answer.skipped is not None,
        search_skipped_reason=answer.skipped,
        dropped_terms=list(answer.dropped_terms),
        moment=wire_moment(answer.moment),
        receipt_id=attached.receipt_id,
        hint=attached.hint,
        warnings=attached.warnings,
    )
    if channels:
        instruct = [record.value.interpret_as == "instruction" for record in records]
        response.content = [fact for fact, it in zip(facts, instruct, strict=True) if not it]
        response.instructions = list(compress(facts, instruct))
    return response


def _embedding(context: ReadingContext) -> EmbeddingUsed:
    embeddings = context.node.embeddings
    space = None if embeddings is None else embeddings.space
    return EmbeddingUsed(space is not None, None if space is None else space.model)


def _debugged(answer: RecallAnswer) -> dict[str, Any]:
    """The numbers behind every score, by fact id."""
    return {
        each.row.id: {
            "score": each.score,
            **msgspec.structs.asdict(each.breakdown),
            "explain": each.explain,
        }
        for each in answer.results
    }


def shown_records(
    context: ReadingContext, answer: RecallAnswer, screen: Screen
) -> list[FactRecord]:
    """The records of the recalled facts, under the sanitizer mode."""
    find_garden, node_id = context.node.reader.gardens.find, context.node.node_id
    records: list[FactRecord] = []
    for index, each in enumerate(answer.results):
        row = each.row
        garden = None if row.garden_id is None else find_garden(row.garden_id)
        waits = "pending" if garden is not None and garden.quarantine else None
        now = Volatile(
            each.confidence, each.contradicted, each.source_trust, waits, _brief(each.attributes)
        )
        if each.from_card:
            # This node writes the card, even about other nodes' facts.
            text = for_model(context.service.settings.sanitizer_mode, row.value_v)
            row = msgspec.structs.replace(row, value_v=text)
            records.append(record_of(row, now, row.origin))
        else:
            records.append(screen.show(index, record_of(row, now, node_id)))
    return records


def _brief(attributes: FactAttributes | None) -> FactAttributes | None:
    """Attributes without their free texts, which no token budget counts."""
    if attributes is None:
        return None
    return msgspec.structs.replace(attributes, **dict.fromkeys(FREE_TEXTS, ""))


def _beside(answer: RecallAnswer, records: list[FactRecord]) -> list[dict[str, Any]]:
    """The profile's additions to each fact, from the texts that this answer shows."""
    if not answer.enrichment:
        return [{} for _ in records]
    returned = [
        EnrichedFact(
            str(record.value.v),
            _shown(each.attributes or PLAIN, record),
            each.confidence,
            each.row.recorded_at,
            each.recalls,
            each.idle_us,
        )
        for record, each in zip(records, answer.results, strict=True)
    ]
    return enrich(answer.enrichment, returned)


def _shown(attributes: FactAttributes, record: FactRecord) -> FactAttributes:
    """The attributes with free texts shown like the record's value: cleaned if the sanitizer
    flagged the fact."""
    if not record.sanitizer_warnings:
        return attributes
    serve = clean if record.sanitizer_stripped is UNSET else stripped
    silent = record.sanitizer_redacted
    texts = {name: "" if silent else serve(getattr(attributes, name)) for name in FREE_TEXTS}
    return msgspec.structs.replace(attributes, **texts)


def roomy(body: RecallBody) -> RecallBody:
    """The question with twice its budget. Lines are shorter than the values that the profile
    counts; packing the lines applies the budget again."""
    return body.model_copy(update={"token_budget": min(2 * body.token_budget, TOKEN_BUDGET_MAX)})


def compact_answer(
    body: RecallBody, answer: RecallAnswer, records: list[FactRecord], attached: Attached
) -> tuple[RecallAnswer, RecalledLines]:
    """One text within the budget, and the answer reduced to its facts."""
    hint = attached.hint
    notes = [] if answer.results else [NOTHING_ABOUT if body.entity else NOTHING]
    notes += [WEAK] if answer.results and answer.weak_evidence else []
    notes += [hint["message"]] if hint else []
    notes += attached.warnings
    text = packed_lines(records, body.token_budget, notes, body.scope)
    if not text.kept and (records or answer.truncated):
        text = packed_lines([], body.token_budget, [TOO_LONG])
    kept = tuple(answer.results[index] for index in text.kept)
    answer = msgspec.structs.replace(
        answer,
        results=kept,
        tokens_used=text.tokens,
        truncated=answer.truncated or len(kept) < len(records),
    )
    return answer, RecalledLines(text.text, len(kept), **_around(body, answer, attached))


def facts_answer(
    body: RecallBody, answer: RecallAnswer, records: list[FactRecord], attached: Attached
) -> ShortRecords:
    """Each fact once, with its score."""
    facts = [
        ScoredShortFact(*statement(record), score=each.score)
        for record, each in zip(records, answer.results, strict=True)
    ]
    return ShortRecords(facts, **_around(body, answer, attached))


def _around(body: RecallBody, answer: RecallAnswer, attached: Attached) -> dict[str, Any]:
    return {
        "total_scored": answer.total_scored,
        "token_budget": body.token_budget,
        "tokens_used": answer.tokens_used,
        "truncated": answer.truncated,
        "weak_evidence": answer.weak_evidence,
        "moment": wire_moment(answer.moment),
        "receipt_id": attached.receipt_id,
        "hint": attached.hint,
        "warnings": attached.warnings,
    }
