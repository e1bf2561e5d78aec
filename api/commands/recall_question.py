"""Asking the recall pipeline on a caller's behalf, at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from engramlog.api.commands.entity_names import entity_named
from engramlog.api.commands.garden_access import entered_garden, within
from engramlog.api.commands.memory_cards import card_source
from engramlog.api.commands.recall_shapes import (
    check_intent,
    check_stages,
    profile_named,
    question_of,
)
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.schemas.recall import RecallBody
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.recall.answer import RecallAnswer
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.request import RecallRequest


@dataclass(frozen=True)
class AskedRecall:
    """A question and what came of it, under which rights and profile."""

    found: RecallAnswer
    question: RecallRequest
    authorization: Authorization
    profile: Profile


def ask(
    context: RequestContext, body: RecallBody, view: View, moment: Moment, *, explain: bool
) -> AskedRecall:
    """Run the pipeline with the caller's rights of today.

    Raises:
        ApiError: 400 for a scope or profile that does not exist, 404 for a garden, 422.
    """
    name = body.profile or context.service.settings.recall_profile
    authorization = within(context, context.model_authorization, body.garden_id)
    authorization = authorization.capped(body.max_classification)
    question = question_of(
        body,
        name,
        _garden_scope(context, body),
        entity=None if body.entity is None else entity_named(context, body.entity, moment.position),
        explain=explain,
    )
    profile = profile_named(context.node.reader, name, moment)
    check_stages(question.stages, profile)
    check_intent(question, profile)
    embeddings = context.node.embeddings
    found = recall(
        view,
        context.node.reader.rows,
        question,
        profile,
        authorization,
        moment,
        cards=card_source(context, body),
        aliases=context.node.reader.aliases,
        semantics=None if embeddings is None else embeddings.semantics,
        executor=context.service.stage_pool,
        slots_of_cid=lambda cid: view.cid_slots(cid_number(cid)).tolist(),
    )
    return AskedRecall(found, question, authorization, profile)


def _garden_scope(context: RequestContext, body: RecallBody) -> str | None:
    """The scope of the garden that is asked, where the request leaves its scope open."""
    if body.garden_id is None or "scope" in body.model_fields_set:
        return None
    return entered_garden(context, body.garden_id).scope
