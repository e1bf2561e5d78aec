"""Which facts are contradicted, as a caller sees them: by another value of their key, or denied."""

import numpy as np

from engramlog.projections.arrays import I32, Bool, Slots
from engramlog.projections.ascending import grouped
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.open_denials import OpenDenials
from engramlog.projections.image.rival_values import Validity, have_rivals
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment


def are_contradicted(
    view: View, slots: Slots, moment: Moment, authorization: Authorization
) -> Bool:
    """Which of ``slots`` have a live, visible sibling with another value, or lost such a
    conflict. Set-valued relations and expired facts never do."""
    lost: Bool = view.set_aside[slots] <= moment.position
    crowded = view.crowded(slots)
    if not np.count_nonzero(crowded) and not view.denials:
        return lost
    many, flags = np.atleast_1d(slots), np.atleast_1d(lost)
    asked = np.flatnonzero(crowded & view.competing_claims(slots, moment))  # of one, too
    if len(asked):
        flags[asked] = _disputed(view, many[asked], moment, authorization)
    if view.denials:
        flags |= are_denied(view, many, moment, authorization, ~flags)
    return flags.reshape(np.shape(slots))


def are_denied(
    view: View, slots: I32, moment: Moment, authorization: Authorization, asked: Bool | None = None
) -> Bool:
    """Which of ``slots``, or of those ``asked``, are live facts that another source denies."""
    denied: Bool = np.zeros(len(slots), dtype=np.bool_)
    if view.denials:
        ever = view.denials.denied.ever(slots) & view.claimed(slots, moment)
        chosen = (ever if asked is None else ever & asked).nonzero()[0]
        if len(chosen):
            denied[chosen] = OpenDenials(view, moment, authorization).name(slots[chosen])
    return denied


def have_one_voice(view: View, slots: I32, moment: Moment, authorization: Authorization) -> Bool:
    """Which of ``slots``, contradicted facts, only their own voice contradicts: no other one has a
    visible live fact of their key, denies them or has set them aside."""
    found: Bool = view.set_aside[slots] > moment.position
    found &= ~are_denied(view, slots, moment, authorization)
    keys, of = np.unique(view.key[slots], return_inverse=True)
    siblings, lengths = view.key_lists(keys)
    group = np.repeat(np.arange(len(keys)), lengths)
    standing = view.competing_claims(siblings, moment) & authorization.mask(view, siblings)
    voices = view.voices(siblings)
    own = np.zeros(len(keys), dtype=np.int64)
    own[group[standing]] = voices[standing]
    other = np.zeros(len(keys), dtype=np.bool_)
    other[group[standing & (voices != own[group])]] = True
    return found & ~other[of]


def _disputed(view: View, slots: I32, moment: Moment, authorization: Authorization) -> Bool:
    """Which of ``slots`` a claimed sibling contradicts: same key, another value, and both valid
    at some time."""
    if len(slots) == 1:  # most look-ups: there is nothing to group
        return np.array([_is_disputed(view, slots, moment, authorization)])
    keys, of = np.unique(view.key[slots], return_inverse=True)
    first = np.zeros(len(keys), dtype=np.int32)
    first[of] = slots
    relations = view.relation[first].tolist()
    shared = {number for number in set(relations) if view.is_set_valued(number, moment)}
    single = np.flatnonzero([relation not in shared for relation in relations])
    siblings, lengths = view.key_lists(keys[single])
    group = np.repeat(single, lengths)
    standing = view.competing_claims(siblings, moment)
    standing &= authorization.mask(view, siblings)
    siblings, group = siblings[standing], group[standing]
    values = view.value[siblings]
    differs = (values[1:] != values[:-1]) & (group[1:] == group[:-1])
    disputed: Bool = np.zeros(len(slots), dtype=np.bool_)
    mixed: Bool = np.zeros(len(keys), dtype=np.bool_)
    mixed[group[1:][differs]] = True
    members = mixed[of].nonzero()[0]
    if not len(members):
        return disputed
    contested = mixed[group]
    siblings, group = siblings[contested], group[contested]
    starts = group.searchsorted(np.arange(len(keys) + 1))
    some = starts[:-1][mixed]  # of keys with siblings
    latest = np.zeros(len(keys), dtype=np.int64)
    soonest = latest.copy()
    latest[mixed] = np.maximum.reduceat(view.valid_from[siblings], some)
    soonest[mixed] = np.minimum.reduceat(view.valid_until[siblings], some)
    asked, own = slots[members], of[members]
    # Nearly always all facts of a key are valid at once: then each has a rival.
    at_once = (latest[own] < view.valid_until[asked]) & (soonest[own] > view.valid_from[asked])
    disputed[members[at_once]] = True
    members, own = members[~at_once], own[~at_once]
    for key, places in grouped(own):
        rest = members[places]
        theirs = siblings[starts[key] : starts[key + 1]]
        disputed[rest] = have_rivals(_validity(view, slots[rest]), _validity(view, theirs))
    return disputed


def _validity(view: View, slots: I32) -> Validity:
    return Validity(view.valid_from[slots], view.valid_until[slots], view.value[slots])


def _is_disputed(view: View, slot: I32, moment: Moment, authorization: Authorization) -> bool:
    """``_disputed`` of one fact."""
    if view.is_set_valued(int(view.relation[slot[0]]), moment):
        return False
    siblings = view.key_slots(int(view.key[slot[0]]))
    siblings = siblings[authorization.mask(view, siblings)]
    siblings = siblings[view.competing_claims(siblings, moment)]
    values = view.value[siblings]
    mixed = bool((values[1:] != values[:-1]).any())
    return mixed and bool(view.are_rivals(slot, siblings).any())
