"""Trust: the formula by hand, and the same numbers in tables, memory image and past."""

import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import (
    FactAsserted,
    KeyIssued,
    SourceTrustSet,
    TrustPolicy,
    TrustPolicySet,
    Value,
)
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.view import View, everything
from engramlog.projections.moment import Moment
from engramlog.projections.rights.trust_formula import (
    CLAIMED,
    RECEIVED,
    WRITTEN_HERE,
    Authority,
    authority_of,
    trust_levels,
    trust_score,
    warrant_of,
)
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import AssertFact, Command
from tests.worlds.histories import START_US
from tests.worlds.replaying import replayed
from tests.worlds.stated_facts import stating

PLAIN = TrustPolicy()


@pytest.mark.parametrize(
    ("authority", "trust"),
    [
        # .35 × .1 + .30 × .5 + .25 × .2 + .10 × .2 = .035 + .15 + .05 + .02
        ("other", 0.255),
        # a team or public scope: .25 × .5 = .125 in place of .05
        ("shared", 0.33),
        # own authority: .25 × .7 = .175
        ("own", 0.38),
        # about itself: .25 × .9 = .225
        ("self", 0.43),
    ],
)
def test_the_formula_is_the_protocols(authority: Authority, trust: float) -> None:
    assert trust_score(authority, PLAIN) == trust


def test_its_parameters_are_a_policy() -> None:
    generous = TrustPolicy(identity_bare=0.9, history_new=1.0)
    # .35 × .9 + .30 × 1 + .05 + .02
    assert trust_score("other", generous) == 0.685
    assert trust_levels(TrustPolicy(mode="off")).tolist() == [1.0] * 9


@pytest.mark.parametrize(
    ("source", "entity", "scope", "authority"),
    [
        ("stigmem://acme/agent/a", "stigmem://acme/agent/a", "company", "self"),
        ("stigmem://acme/agent/a", "stigmem://acme/user/b", "public", "own"),
        ("stigmem://acme/agent/a", "stigmem://other/user/b", "public", "shared"),
        ("stigmem://acme/agent/a", "stigmem://other/user/b", "team", "shared"),
        ("stigmem://acme/agent/a", "stigmem://other/user/b", "company", "other"),
        ("agent:a", "agent:a", "local", "other"),  # an informal name has no authority
        ("stigmem://acme/agent/a", "stigmem://acme.evil/user/b", "local", "other"),
    ],
)
def test_authority_is_read_off_the_names(
    source: str, entity: str, scope: str, authority: str
) -> None:
    assert authority_of(source, entity, scope) == authority


@pytest.mark.parametrize(
    ("actor", "keyed", "received", "warrant"),
    [
        ("anon:trusted", False, False, WRITTEN_HERE),  # loopback, authentication off
        ("system:engramlog", False, False, WRITTEN_HERE),
        ("agent:a", True, False, WRITTEN_HERE),  # speaks for itself
        ("agent:b", True, False, CLAIMED),  # speaks for another
        ("agent:a", False, True, RECEIVED),  # came from a peer: names prove nothing
    ],
)
def test_writers_under_their_own_name_need_no_formula(
    actor: str, keyed: bool, received: bool, warrant: int
) -> None:
    found = warrant_of(
        source="agent:a", entity="user:x", scope="local", actor=actor, keyed=keyed,
        received=received,
    )  # fmt: skip
    assert found == warrant


# -- over histories -------------------------------------------------------------------------

NAMES = ("stigmem://acme/agent/a", "agent:b", "agent:c")
ENTITIES = ("stigmem://acme/user/x", "stigmem://acme/agent/a", "user:y")


def fact(entity: str, source: str, scope: str, value: Value) -> AssertFact:
    return stating(entity=entity, relation="rel:knows", value=value, source=source, scope=scope)


_facts = st.builds(
    fact,
    st.sampled_from(ENTITIES),
    st.sampled_from(NAMES),
    st.sampled_from(("local", "public")),
    st.sampled_from([Value("ref", f"user:{n}") for n in range(3)] + [Value("text", "t")]),
)
_keys = st.sampled_from(NAMES).map(
    lambda name: KeyIssued(
        key_id=str(uuid4()),
        entity_uri=name,
        permissions=["read"],
        key_sha256="",
        scopes=[],
    )
)
_settings = st.builds(
    SourceTrustSet, source=st.sampled_from(NAMES), trust=st.sampled_from((0.0, 0.5, 1.0))
)
_policies = st.sampled_from(
    [TrustPolicy(), TrustPolicy(mode="off"), TrustPolicy(mode="strict", identity_bare=0.3)]
).map(lambda policy: TrustPolicySet(policy=policy))
_moves = st.lists(
    st.tuples(
        st.sampled_from(("anon:trusted", *NAMES)),
        st.one_of(_facts, _facts, _facts, _keys, _settings, _policies),
    ),
    min_size=1,
    max_size=25,
)


EDGES = "SELECT from_position, source_trust FROM entity_edges"


def trusts(view: View, moment: Moment) -> list[float]:
    slots = everything(view)
    slots = slots[view.from_position[slots] <= moment.position]
    return view.trust(slots, moment).tolist()


def expected(moves: list[tuple[str, Command]]) -> dict[tuple[str, ...], float]:
    """By (entity, source, scope, value) of the first such fact: trust by the plain rules."""
    keyed: set[str] = set()
    said: dict[str, float] = {}
    policy = TrustPolicy()
    facts: dict[tuple[str, ...], tuple[FactAsserted, bool]] = {}
    for actor, intent in moves:
        if isinstance(intent, KeyIssued):
            keyed.add(intent.entity_uri)
        elif isinstance(intent, SourceTrustSet):
            said[intent.source] = intent.trust
        elif isinstance(intent, TrustPolicySet):
            policy = intent.policy
        else:
            assert isinstance(intent, AssertFact)
            fact = intent.fact
            for_itself = actor not in keyed or actor == fact.source
            facts[fact.cid, str(len(facts))] = (fact, for_itself)
    found: dict[tuple[str, ...], float] = {}
    for name, (each, for_itself) in facts.items():
        if policy.mode == "off":
            found[name] = 1.0
        elif each.source in said:
            found[name] = said[each.source]
        elif for_itself or each.source in keyed:
            found[name] = 1.0
        else:
            authority = authority_of(each.source, each.entity, each.scope)
            found[name] = trust_score(authority, policy)
    return found


@given(_moves)
def test_tables_image_and_past_agree_on_trust(moves: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            written: list[tuple[str, Command]] = []
            seen: dict[int, list[float]] = {}
            for number, (actor, move) in enumerate(moves):
                intent = move
                if isinstance(move, KeyIssued):  # every raw key is a new one
                    intent = msgspec.structs.replace(move, key_sha256=f"{number:064x}")
                answer = node.writer.submit([intent], actor=actor).result()
                if answer.outcomes[0].events:  # type: ignore[union-attr]
                    written.append((actor, intent))
                view = node.reader.pin()
                seen[view.position] = trusts(view, Moment(view.position, START_US))
            view = node.reader.pin()
            now = Moment(view.position, START_US)
            assert trusts(view, now) == list(expected(written).values())
            for position, trust in seen.items():
                assert trusts(view, Moment(position, START_US)) == trust
            with node.reader.pool.connection() as db:
                filled = MemoryImage()
                filled.load(db, view.position)
                edges = dict(query(db, EDGES))
            for position, trust in seen.items():
                assert trusts(View(filled), Moment(position, START_US)) == trust
            refs = np.flatnonzero(view.object >= 0).astype(np.int32)
            positions = view.from_position[refs].tolist()
            assert edges == dict(zip(positions, view.trust(refs, now).tolist(), strict=True))
            with replayed(node.log.read(0, 10_000), 7) as store:  # at any batch size
                assert edges == dict(query(store.db, EDGES))
        finally:
            node.close()
