"""Lint: facts of a scope that deserve a second look, as a caller sees them.

Checks by name, each a pure function of the visible facts at the Moment (wire 2.2):
``contradiction`` (two values that exclude each other), ``stale`` (validity has ended, or soon
will), ``orphan`` (an entity without live facts), ``broken_ref`` (a ref to an entity without live
facts) and ``namespacing`` (a relation without a namespace).
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.contradictions.conflicts import conflicts
from engramlog.projections.graph.neighbors import relations_matching
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, live, saying
from engramlog.projections.moment import NO_END, Moment, format_instant
from engramlog.projections.normalization import is_reserved

Check: TypeAlias = Literal["contradiction", "stale", "orphan", "broken_ref", "namespacing"]
Severity: TypeAlias = Literal["error", "warning", "info"]
FINDINGS_MAX = 1_000
"""Findings listed per check; the answer says if there are more."""
QUOTED_CHARACTERS_MAX = 200
"""Characters that a finding quotes of each value."""
ROUTING_RELATIONS = ("intent:handoff_to", "intent:context_ref")
"""Relations that hand work on: a broken ref under one of them loses the work."""
FACTS_MAX = 20
"""Fact ids listed for a finding, newest first."""


class LintRequest(Struct, frozen=True, kw_only=True):
    """What to check. ``entity`` in stored form; ``lookahead_us``: how soon validity must end
    to be reported, microseconds."""

    scope: str
    checks: tuple[str, ...]
    entity: str | None = None
    relation: str | None = None
    lookahead_us: int = 0


class LintFinding(Struct, frozen=True):
    """One thing to look at. ``relation`` is null where it concerns the whole entity."""

    check: Check
    severity: Severity
    entity: str
    relation: str | None
    fact_ids: list[str]
    detail: str


class LintFindings(Struct, frozen=True):
    """``fact_count``: live facts that were checked; ``truncated``: a check found more than
    ``FINDINGS_MAX``."""

    findings: list[LintFinding]
    fact_count: int
    truncated: bool


class _Room(Struct, frozen=True):
    """The input of checks: live slots (including expired ones apart) and all slots, of the scope
    and the request's filters."""

    reader: Reader
    view: View
    rights: Authorization
    inside: Authorization
    moment: Moment
    request: LintRequest
    holding: I32
    unended: I32
    ever: I32


def lint(
    reader: Reader,
    view: View,
    authorization: Authorization,
    moment: Moment,
    request: LintRequest,
) -> LintFindings:
    """The findings of the requested checks, in their order, entities by name."""
    inside = authorization.narrowed(frozenset({request.scope}))
    room = _Room(
        reader=reader,
        view=view,
        rights=authorization,
        inside=inside,
        moment=moment,
        request=request,
        holding=_matching_slots(view, live(view, inside, moment), request),
        unended=_matching_slots(view, live(view, inside, moment, include_expired=True), request),
        ever=_matching_slots(view, known(view, inside, moment), request),
    )
    findings: list[LintFinding] = []
    truncated = False
    for name in request.checks:
        found = CHECKS[name](room)
        truncated |= len(found) > FINDINGS_MAX
        findings += found[:FINDINGS_MAX]
    return LintFindings(findings, len(room.holding), truncated)


def _shortened(value: str) -> str:
    """A value as quoted in a finding: shortened, because findings also name the facts."""
    whole = len(value) <= QUOTED_CHARACTERS_MAX
    return repr(value if whole else value[: QUOTED_CHARACTERS_MAX - 1] + "…")


def _contradictions(room: _Room) -> list[LintFinding]:
    request = room.request
    findings: list[LintFinding] = []
    open_ones = conflicts(room.reader, room.view, room.inside, room.moment, status="unresolved")
    wanted = (each for each in open_ones if _wanted(room.view, each.newer, request))
    for each in islice(wanted, FINDINGS_MAX + 1):
        newer, older = room.reader.every_row(
            [int(room.view.from_position[slot]) for slot in each.newest_first(room.view)]
        )
        detail = f"{_shortened(newer.value_v)} (newer) against {_shortened(older.value_v)}"
        findings.append(
            LintFinding("contradiction", "error", newer.entity, newer.relation,
                        [newer.id, older.id], detail)
        )  # fmt: skip
    return findings


def _stale(room: _Room) -> list[LintFinding]:
    view, horizon = room.view, room.moment.valid_us + room.request.lookahead_us
    ends = view.valid_until[room.unended]
    due = room.unended[(ends != NO_END) & (ends <= horizon)]
    findings: list[LintFinding] = []
    for slot in due[: FINDINGS_MAX + 1].tolist():
        end = int(view.valid_until[slot])
        over = end <= room.moment.valid_us
        detail = f"validity {'ended' if over else 'ends'} at {format_instant(end)}"
        findings.append(_finding_for(room, "stale", "warning" if over else "info", [slot], detail))
    return findings


def _orphans(room: _Room) -> list[LintFinding]:
    view = room.view
    alive = _entities(view, live(view, room.inside, room.moment))
    mentioned = np.unique(view.entity[room.ever])
    findings: list[LintFinding] = []
    for number in _names_of_entities(view, mentioned[~alive[mentioned]]):
        slots = room.ever[view.entity[room.ever] == number]
        detail = "nothing that was said of this entity holds"
        findings.append(
            _finding_for(room, "orphan", "info", slots.tolist(), detail, whole_entity=True)
        )
    return findings


def _broken_refs(room: _Room) -> list[LintFinding]:
    view = room.view
    alive = _entities(view, live(view, room.rights, room.moment))
    refs = room.holding[view.object[room.holding] >= 0]
    broken = refs[~alive[view.object[refs]]]
    routing = {view.relations.number(label) for label in ROUTING_RELATIONS}
    findings: list[LintFinding] = []
    for slot in broken[: FINDINGS_MAX + 1].tolist():
        severity = "error" if int(view.relation[slot]) in routing else "warning"
        detail = f"nothing holds of {view.entities.text(int(view.object[slot]))}"
        findings.append(_finding_for(room, "broken_ref", severity, [slot], detail))
    return findings


def _namespaces(room: _Room) -> list[LintFinding]:
    view = room.view
    bare = relations_matching(view, "no namespace", lambda label: ":" not in label)
    slots = room.holding[bare[view.relation[room.holding]]]
    findings: list[LintFinding] = []
    # By the oldest readable fact: numbers of keys would tell in which order hidden ones came.
    keys, first = np.unique(view.key[slots], return_index=True)
    for key in keys[np.argsort(first)][: FINDINGS_MAX + 1].tolist():
        of_key = slots[view.key[slots] == key]
        label = view.relations.text(int(view.relation[of_key[0]]))
        detail = f"relation {label!r} has no namespace, such as 'memory:'"
        findings.append(_finding_for(room, "namespacing", "warning", of_key.tolist(), detail))
    return findings


CHECKS: dict[str, Callable[[_Room], list[LintFinding]]] = {
    "contradiction": _contradictions,
    "stale": _stale,
    "orphan": _orphans,
    "broken_ref": _broken_refs,
    "namespacing": _namespaces,
}
"""By name, in the default order."""


def _matching_slots(view: View, slots: I32, request: LintRequest) -> I32:
    return saying(view, slots, entity=request.entity, relation=request.relation)


def _wanted(view: View, slot: int, request: LintRequest) -> bool:
    return bool(len(_matching_slots(view, np.array([slot], dtype=np.int32), request)))


def _entities(view: View, slots: I32) -> Bool:
    """By entity number: whether one of ``slots`` is a fact about the entity."""
    alive = np.zeros(len(view.entities), dtype=np.bool_)
    alive[view.entity[slots]] = True
    return alive


def _names_of_entities(view: View, numbers: I32) -> list[int]:
    """Entities by name, without the protocol's own records."""
    named = [(view.entities.text(number), number) for number in numbers.tolist()]
    ours = [(text, number) for text, number in named if not is_reserved(text)]
    return [number for _, number in sorted(ours)[: FINDINGS_MAX + 1]]


def _finding_for(
    room: _Room,
    check: Check,
    severity: Severity,
    slots: Sequence[int],
    detail: str,
    *,
    whole_entity: bool = False,
) -> LintFinding:
    newest = sorted(slots, key=lambda slot: -int(room.view.hlc[slot]))[:FACTS_MAX]
    rows = room.reader.every_row([int(room.view.from_position[slot]) for slot in newest])
    relation = None if whole_entity else rows[0].relation
    return LintFinding(check, severity, rows[0].entity, relation, [row.id for row in rows], detail)
