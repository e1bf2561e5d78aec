"""Derivation depth: how many hops lie between a fact and an underived one (seed §20.6.3).

Only ancestors visible to the request at its Moment count, so a hidden parent looks like an absent
one. The longest chain counts: a conclusion is no surer than its longest way from an observation.
Cycles and long chains end at ``HOPS_MAX``.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from engramlog.projections.arrays import I32, I64
from engramlog.projections.image.visible_facts import known
from engramlog.projections.recall.request_facts import Survey

HOPS_MAX = 5
LOOKUPS_MAX = 20_000
"""Facts read for one request; longer chains end there."""


def derivation_depth(survey: Survey, slots: I32) -> I64:
    """Hops of each fact's longest visible chain of parents, at most ``HOPS_MAX``."""
    depths: I64 = np.zeros(len(slots), dtype=np.int64)
    if not survey.view.has_derivations:
        return depths
    levels: list[dict[int, tuple[int, ...]]] = []
    frontier: Sequence[int] = [n for n in slots.tolist() if survey.view.parents(n)]
    looked_at = 0
    while frontier and len(levels) < HOPS_MAX and looked_at < LOOKUPS_MAX:
        levels.append(_visible_parents(survey, frontier))
        looked_at += len(frontier)
        reached = {each for parents in levels[-1].values() for each in parents}
        frontier = [each for each in sorted(reached) if survey.view.parents(each)]
    below: dict[int, int] = {}
    for level in reversed(levels):
        below = {
            child: 1 + max(below.get(parent, 0) for parent in parents)
            for child, parents in level.items()
            if parents
        }
    for index, slot in enumerate(slots.tolist()):
        depths[index] = below.get(slot, 0)
    return depths


def _visible_parents(survey: Survey, children: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """By child: the newest visible fact for each content that it was derived from, of the child's
    node if that stated it."""
    view = survey.view
    candidates: dict[int, I32] = {}
    for child in children:
        for number in view.parents(child):
            if number not in candidates:
                candidates[number] = view.cid_slots(number)
    if not candidates:
        return {}
    everyone: I32 = np.unique(np.concatenate(list(candidates.values())))
    visible = set(known(view, survey.authorization, survey.moment, everyone).tolist())
    shown: dict[int, I32] = {}
    for number, found in candidates.items():
        seen = [slot for slot in found.tolist() if slot in visible]
        if seen:
            shown[number] = np.array(seen, dtype=np.int32)

    @cache
    def newest(number: int, voice: tuple[int, int]) -> int:
        return int(view.by_age(view.of_voice(shown[number], voice))[-1])

    links: dict[int, tuple[int, ...]] = {}
    for child in children:
        voice = view.voice(child)
        numbers = view.parents(child)
        links[child] = tuple(newest(number, voice) for number in numbers if number in shown)
    return links
