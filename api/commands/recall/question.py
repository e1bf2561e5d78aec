"""Calls the recall pipeline for a caller, at a moment.

If the requested scope has no good answer, asks the same question in the caller's other scopes; the
answer names the better one (``hint_of``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engramlog.api.commands.entity_names import entity_named
from engramlog.api.commands.garden_access import entered_garden, within
from engramlog.api.commands.memory_cards import card_source
from engramlog.api.commands.recall.named_profile import profile_named
from engramlog.api.commands.recall.shapes import check_intent, check_stages, question_of
from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.schemas.recall import TOKEN_BUDGET_MAX, RecallBody
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.recall.answer import RecallAnswer, Recalled
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import Profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.text.stop_words import without_stop_words
from engramlog.projections.text.terms import lexical_text

COMPARED = 3
"""Facts of the wider question to compare."""


@dataclass(frozen=True)
class RecallRun:
    """A question and its outcome, with the rights and profile used."""

    answer: RecallAnswer
    question: RecallRequest
    authorization: Authorization
    profile: Profile


def ask(
    context: ReadingContext, body: RecallBody, view: View, moment: Moment, *, explain: bool
) -> RecallRun:
    """Run the pipeline with the caller's present rights. Raises ApiError 400 for a scope or profile
    that does not exist, 404 for a garden, 422."""
    name = body.profile or context.service.settings.recall_profile
    authorization = within(context, context.recall_authorization, body.garden_id)
    authorization = authorization.capped(body.max_classification)
    question = question_of(
        body,
        name,
        _garden_scope(context, body),
        entity=None if body.entity is None else entity_named(context, body.entity, moment.position),
        explain=explain,
    )
    profile = profile_named(context.node.reader, name, moment.position)
    check_stages(question.stages, profile)
    check_intent(question, profile)
    embeddings = context.node.embeddings
    answer = recall(
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
    return RecallRun(answer, question, authorization, profile)


def _garden_scope(context: ReadingContext, body: RecallBody) -> str | None:
    """The scope of the request's garden, if the request leaves its scope open."""
    if body.garden_id is None or "scope" in body.model_fields_set:
        return None
    return entered_garden(context, body.garden_id).scope


def hint_of(
    context: ReadingContext, body: RecallBody, view: View, moment: Moment, run: RecallRun
) -> dict[str, Any] | None:
    """A scope with a better answer; None if this one is good."""
    scopes = run.question.scopes
    if scopes is None or body.garden_id is not None or run.answer.skipped is not None:
        return None
    terms = frozenset(view.tokenize(without_stop_words(run.question.query)))
    if not _is_weak(view, run.answer, terms):
        return None
    by_scope = _counts(view, run.authorization, moment)
    scope = sorted(scopes)[0]
    if not by_scope.keys() - scopes:
        return None
    if not run.answer.results and scope not in by_scope:
        elsewhere = ", ".join(f"{count} in {name!r}" for name, count in by_scope.items())
        return {
            "code": "scope_is_empty",
            "message": f"scope {scope!r} has no facts; there are {elsewhere}",
            "scopes": by_scope,
        }
    best = _elsewhere(context, body, view, moment, run, terms)
    if best is None:
        return None
    where = best.row.scope
    return {
        "code": "better_in_other_scope",
        "message": f"a fact in scope {where!r} answers better than any in {scope!r}; "
        f"ask with scope {where!r}, or '*' for every scope",
        "scopes": {where: by_scope.get(where, 1)},
        "fact_id": best.row.id,
    }


def _is_weak(view: View, answer: RecallAnswer, terms: frozenset[str]) -> bool:
    """Whether the answer may be missing: no fact, or none with the keywords."""
    if not answer.results:
        return True
    if answer.evidence is not None:
        return answer.evidence != "strong"
    return _share(view, answer.results[0], terms) < 1.0


def _elsewhere(
    context: ReadingContext,
    body: RecallBody,
    view: View,
    moment: Moment,
    run: RecallRun,
    terms: frozenset[str],
) -> Recalled | None:
    """The best fact of all readable scopes, if it is in another one and is better."""
    wider = body.model_copy(
        update={"scope": "*", "limit": COMPARED, "token_budget": TOKEN_BUDGET_MAX}
    )
    answer = ask(context, wider, view, moment, explain=False).answer
    if not answer.results or answer.results[0].row.scope in (run.question.scopes or ()):
        return None
    best = answer.results[0]
    if not run.answer.results or answer.evidence == "strong":
        return best
    return best if _share(view, best, terms) > _share(view, run.answer.results[0], terms) else None


def _share(view: View, each: Recalled, terms: frozenset[str]) -> float:
    """The share of keywords that a fact contains, 0 to 1."""
    if not terms:
        return 1.0
    row = each.row
    held = view.tokenize(lexical_text(row.entity, row.relation, row.value_type, row.value_v))
    return len(terms.intersection(held)) / len(terms)


def _counts(view: View, authorization: Authorization, moment: Moment) -> dict[str, int]:
    """Live readable facts by scope."""
    slots = live(view, authorization, moment)
    counts = np.bincount(view.scope[slots], minlength=len(SCOPES)).tolist()
    return {scope: count for scope, count in zip(SCOPES, counts, strict=True) if count}
