"""The views of a node with some scopes of a log equal those of the whole log, without the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.eventlog.event import Draft, garden_partition, scope_partition
from engramlog.eventlog.held_scopes import EVERY_SCOPE, known
from engramlog.eventlog.kinds import CapabilityRevoked, FactErased, Payload
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import Command, OnBehalf, SweepDecay
from engramlog.projections.writing.held_commands import drafts_not_held, not_held
from tests.worlds.histories import START_US, Step, asserted, histories
from tests.worlds.image_contents import contents
from tests.worlds.replaying import QUICK, digests_in_pages, judged, lived, replayed
from tests.worlds.samples import fact

TEAM = frozenset({"team"})


@given(histories(), st.sampled_from([{"local"}, {"company"}, {"company", "team"}]))
@settings(QUICK, max_examples=10)
def test_views_of_some_scopes_are_those_of_all_without_the_rest(
    steps: list[Step], scopes: set[str]
) -> None:
    held = frozenset(scopes)
    with lived(steps) as node:
        events = node.log.read(0, 10_000)
        whole = node.reader.pin()
        now = Moment(whole.position, START_US * 2)
        wanted = {
            position: found
            for position, found in judged(whole, now).items()
            if scope_at(whole, position) in held
        }
    part = [known(held, event) for event in events]
    digests = {digests_in_pages(part, page).local for page in (1, 7, len(part) or 1)}
    assert len(digests) == 1
    folded, loaded = MemoryImage(), MemoryImage()
    folded.apply(part, len(part))
    with replayed(part, len(part) or 1) as store:
        loaded.load(store.db, len(part))
        assert {scope for (scope,) in query(store.db, "SELECT scope FROM facts")} <= held
    assert contents(loaded) == contents(folded)
    assert judged(View(folded), now) == wanted


def scope_at(view: View, position: int) -> str:
    slot = view.from_position.tolist().index(position)
    return SCOPES[int(view.scope[slot])]


@pytest.mark.parametrize(
    ("command", "other"),
    [
        (asserted("user:ann", "memory:is", scope="team"), None),
        (asserted("user:ann", "memory:is", scope="local"), "scope 'local'"),
        (OnBehalf("a", asserted("user:ann", "memory:is", scope="public")), "scope 'public'"),
        (SweepDecay(scopes=("team", "company"), policies=()), "scope 'company'"),
        (FactErased(erasure_id="e", reason="law", fact_ids=[], events=[]), "this"),
    ],
)
def test_a_command_that_needs_another_scope_is_refused(command: Command, other: str | None) -> None:
    assert not_held(EVERY_SCOPE, command) is None
    refusal = not_held(TEAM, command)
    assert (refusal is None) == (other is None)
    if refusal is not None:
        assert refusal.code == "scope_not_held"
        assert refusal.message.endswith(f"for {other}")


@pytest.mark.parametrize(
    ("payload", "partition", "held"),
    [
        (fact().payload, scope_partition("team"), True),
        (fact().payload, scope_partition("company"), False),
        (fact(scope="team").payload, garden_partition("g"), True),
        (fact().payload, garden_partition("g"), False),  # it is of scope company
        (FactErased(erasure_id="e", reason="law", fact_ids=[], events=[]),
         scope_partition("company"), True),
        (CapabilityRevoked(revocation_id="c", scope="local"), scope_partition("local"), True),
    ],
)  # fmt: skip
def test_drafts_in_another_scope_are_refused(payload: Payload, partition: str, held: bool) -> None:
    draft = Draft(payload, partition, b"i" * 16, "agent:one")
    assert (drafts_not_held(TEAM, [draft]) is None) == held
