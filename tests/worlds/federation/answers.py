"""A node's answers, lists of facts and recall, as plain data to compare nodes by."""

from collections.abc import Sequence
from typing import Any

from engramlog.api.answers.fact_list import ListFilters, matching, page_of
from engramlog.eventlog.kinds import DecayPolicy, RecallServed, RecallUse, SourceTrustSet
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.moment import Moment
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.writing.commands import SweepDecay
from tests.worlds.federation.network import START_US, Member

SHARED_SCOPES = ("company", "public")
DAY_US = 86_400_000_000
HALF_LIFE = DecayPolicy(
    id="p", relation="memory:*", mode="confidence", half_life_s=86_400.0 * 30, min_confidence=0.05
)
PROFILES = ("default", "stigmem", "stargraph", "abmind", "abmind-head")

Answers = dict[str, Any]


def level(members: Sequence[Member], sources: Sequence[str], at_us: int) -> None:
    """Give every node the same clock, trust in sources, access counts and decay: these never
    travel."""
    for member in members:
        member.clock.set(at_us)
        own: list[Any] = [
            SourceTrustSet(source=source, trust=round(1.0 - 0.15 * (number % 5), 2))
            for number, source in enumerate(sources)
        ]
        for outcome in member.submit(own).outcomes:
            assert outcome
    shared = _ids(members[0], ListFilters(include_expired=True, include_contradicted=True))
    uses = tuple(
        RecallUse(fact_id=fact, count=1 + number % 4, last_at_us=at_us)
        for number, fact in enumerate(sorted(shared)[::3])
    )
    for member in members:
        member.submit([RecallServed(uses=list(uses))])
        member.submit([SweepDecay(scopes=SHARED_SCOPES, policies=(HALF_LIFE,))])


def answers(member: Member, questions: Sequence[str], at_us: int) -> Answers:
    """All answers of a node, by name."""
    found: Answers = {
        "facts": _facts(member, ListFilters(), at_us),
        "all facts": _facts(
            member,
            ListFilters(include_contradicted=True, include_expired=True, include_retracted=True),
            at_us,
        ),
        "newest": _facts(member, ListFilters(prefer="hlc"), at_us),
    }
    for question in questions:
        for profile in PROFILES:
            found[f"{profile}: {question}"] = recalled(member, question, profile, at_us)
    return found


def recalled(member: Member, question: str, profile: str, at_us: int) -> list[tuple[Any, ...]]:
    """Ids, scores and shown trust of a recall, in order, and the number of scored facts."""
    view = member.node.reader.pin()
    found = recall(
        view,
        member.node.reader.rows,
        RecallRequest(query=question, limit=20, token_budget=2_000),
        load_profile(profile),
        _rights(),
        Moment(view.position, at_us),
        slots_of_cid=lambda cid: view.cid_slots(cid_number(cid)).tolist(),
        stopwatch=lambda: 0.0,
    )
    rows: list[tuple[Any, ...]] = [
        (each.row.id, each.score, each.effective_confidence, each.row.value_v)
        for each in found.results
    ]
    return [("scored", found.total_scored), *rows]


def differences(one: Answers, other: Answers) -> list[str]:
    """Names of the questions with different answers from two nodes."""
    return [name for name in one if one[name] != other.get(name)]


def _facts(member: Member, filters: ListFilters, at_us: int) -> list[tuple[Any, ...]]:
    reader = member.node.reader
    view = reader.pin()
    moment = Moment(view.position, at_us)
    found = matching(view, _rights(), moment, filters)
    page = page_of(reader, view, found, limit=500, after=None)
    shown = page.slots
    chosen = found.slots[:0] if not shown else _array(shown)
    confidence = view.confidence(chosen, moment).tolist()
    disputed = are_contradicted(view, chosen, moment, _rights()).tolist()
    trust = view.trust(chosen, moment).tolist()
    rows = [
        (row.id, row.hlc, row.value_v, *rest)
        for row, *rest in zip(page.rows, confidence, disputed, trust, strict=True)
    ]
    return [("total", page.total), *rows]


def _array(slots: list[int]) -> I32:
    import numpy as np

    return np.array(slots, dtype=np.int32)


def _ids(member: Member, filters: ListFilters) -> list[str]:
    return [each[0] for each in _facts(member, filters, START_US + 30 * DAY_US)[1:]]


def _rights() -> Authorization:
    return Authorization("agent:reader", frozenset({"read"}), frozenset(SHARED_SCOPES))
