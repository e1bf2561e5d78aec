"""The tombstones that hide facts of an answer, for admins."""

import numpy as np

from engramlog.api.answers.erasure_records import TombstoneNotice
from engramlog.api.answers.same_fields import shaped
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.recall.request import RecallRequest


def notices_over(view: View, authorization: Authorization, slots: I32) -> list[TombstoneNotice]:
    """The tombstones that hide some of ``slots`` that the caller could otherwise read; empty except
    for admins."""
    if not view.hiding or not authorization.may("admin") or not len(slots):
        return []
    return [
        shaped(tombstone, TombstoneNotice, tombstone_created_at=tombstone.created_at)
        for tombstone in view.hiding.over(view, slots)
    ]


def notices_in_recall(
    view: View, authorization: Authorization, moment: Moment, question: RecallRequest
) -> list[TombstoneNotice]:
    """The tombstones that hide a recall's facts: of its entity, or with a word of its question."""
    if not view.hiding or not authorization.may("admin"):
        return []
    rights = authorization.past_tombstones()
    if question.scopes is not None:
        rights = rights.narrowed(question.scopes)
    found = [view.postings(term)[0] for term in set(view.tokenize(question.query))]
    slots = np.unique(np.concatenate([view.slots_about(question.entity), *found]))
    return notices_over(view, authorization, live(view, rights, moment, slots.astype(np.int32)))
