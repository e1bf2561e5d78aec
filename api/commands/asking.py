"""Asking the recall pipeline on a caller's behalf, at a moment."""

from __future__ import annotations

from dataclasses import dataclass

from api.call import Call
from api.commands.carding import card_source
from api.commands.gardening import entered_garden, within
from api.commands.naming import entity_named
from api.commands.recalling import check_intent, check_stages, profile_named, question_of
from api.schemas.recall import RecallBody
from projections.authorization import Authorization
from projections.mirror import cid_number
from projections.moment import Moment
from projections.recall.answer import RecallAnswer
from projections.recall.pipeline import recall
from projections.recall.profile import Profile
from projections.recall.request import RecallRequest
from projections.view import View


@dataclass(frozen=True)
class Asked:
    """A question and what came of it, under which rights and profile."""

    found: RecallAnswer
    question: RecallRequest
    authorization: Authorization
    profile: Profile


def ask(call: Call, body: RecallBody, view: View, moment: Moment, *, explain: bool) -> Asked:
    """Run the pipeline with the caller's rights of today.

    Raises:
        ApiError: 400 for a scope or profile that does not exist, 404 for a garden, 422.
    """
    name = body.profile or call.service.settings.recall_profile
    authorization = within(call, call.model_authorization, body.garden_id)
    authorization = authorization.capped(body.max_classification)
    question = question_of(
        body,
        name,
        _garden_scope(call, body),
        entity=None if body.entity is None else entity_named(call, body.entity, moment.position),
        explain=explain,
    )
    profile = profile_named(call, name, moment)
    check_stages(question.stages, profile)
    check_intent(question, profile)
    embeddings = call.node.embeddings
    found = recall(
        view,
        call.node.reader.rows,
        question,
        profile,
        authorization,
        moment,
        cards=card_source(call, body),
        aliases=call.node.reader.aliases,
        semantics=None if embeddings is None else embeddings.semantics,
        executor=call.service.stage_pool,
        slots_of_cid=lambda cid: view.cid_slots(cid_number(cid)).tolist(),
    )
    return Asked(found, question, authorization, profile)


def _garden_scope(call: Call, body: RecallBody) -> str | None:
    """The scope of the garden that is asked, where the request leaves its scope open."""
    if body.garden_id is None or "scope" in body.model_fields_set:
        return None
    return entered_garden(call, body.garden_id).scope
