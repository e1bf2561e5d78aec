"""Derivation depth: counted by hand over small families of facts."""

import math
from unittest import mock

import numpy as np
import pytest

from engramlog.projections.recall.factors import features
from engramlog.projections.recall.factors.features import HOPS_MAX, derivation_depth
from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, survey
from tests.worlds.recall_world import World, reader, user


def digits(number: int) -> str:
    """A content hash; the first 64 bits differ."""
    return f"{number:016x}" + "0" * 48


class Family:
    """Facts named by number, each derived from others by number."""

    def __init__(self) -> None:
        self.world = World()
        self.slots: dict[int, int] = {}

    def born(self, number: int, *parents: int, scope: str = "company", text: str = "x") -> None:
        self.slots[number] = self.world.fact(
            user(f"n{number}"), "memory:note", text, scope=scope, name=f"n{number}",
            source=f"agent:{number}", cid=f"sha256:{digits(number)}",
            parents=[digits(each) for each in parents],
        )  # fmt: skip

    def depths(self, *scopes: str) -> dict[int, int]:
        view = self.world.view()
        found = survey(
            view, RecallRequest(query="x"), reader(*scopes), self.world.moment(),
            gate=Gate(0.0, True), depth=0,
        )  # fmt: skip
        numbers = sorted(self.slots)
        slots = np.array([self.slots[each] for each in numbers], dtype=np.int32)
        return dict(zip(numbers, derivation_depth(found, slots).tolist(), strict=True))


def test_hops_are_counted_to_underived_facts() -> None:
    family = Family()
    family.born(1)
    family.born(2, 1)
    family.born(3, 2)
    family.born(4, 3, 1)
    assert family.depths() == {1: 0, 2: 1, 3: 2, 4: 3}


def test_a_hidden_parent_an_absent_one_and_none_are_the_same() -> None:
    family = Family()
    family.born(1, scope="team")
    family.born(2, 1, scope="team")
    family.born(3, 2)
    family.born(4, 99)
    family.born(5)
    family.born(6, 3, 2)
    assert family.depths("company") == {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 1}
    assert family.depths("company", "team") == {1: 0, 2: 1, 3: 2, 4: 0, 5: 0, 6: 3}


def test_a_parent_that_came_later_counts_from_its_position_on() -> None:
    family = Family()
    family.born(2, 1)
    assert family.depths() == {2: 0}
    before = family.world.moment()
    family.born(1)
    assert family.depths() == {1: 0, 2: 1}
    found = survey(
        family.world.view(), RecallRequest(query="x"), reader(), before, gate=Gate(0.0, True),
        depth=0,
    )  # fmt: skip
    assert derivation_depth(found, np.array([family.slots[2]], dtype=np.int32)).tolist() == [0]


def test_a_retracted_parent_still_counts() -> None:
    family = Family()
    family.born(1)
    family.born(2, 1)
    family.world.retract(family.slots[1])
    assert family.depths() == {1: 0, 2: 1}


def test_long_chains_and_cycles_end() -> None:
    chain = Family()
    chain.born(0)
    for number in range(1, 9):
        chain.born(number, number - 1)
    assert chain.depths() == {n: min(n, HOPS_MAX) for n in range(9)}
    cycle = Family()
    cycle.born(1, 2)
    cycle.born(2, 1)
    assert cycle.depths() == {1: HOPS_MAX, 2: HOPS_MAX}


@pytest.mark.parametrize("profile", ["default", "stigmem"])
def test_each_hop_costs_a_tenth_of_the_score(profile: str) -> None:
    family = Family()
    family.born(1, text="ledger")
    family.born(2, 1, text="ledger")
    family.born(3, 2, text="ledger")
    answer = recall(
        family.world.view(), family.world.rows, RecallRequest(query="ledger", lambda_mmr=1.0),
        load_profile(profile), reader(), family.world.moment(),
    )  # fmt: skip
    scores = {each.row.id: each.score for each in answer.results}
    assert math.isclose(scores["n2"] / scores["n1"], 0.9, abs_tol=1e-6)
    assert math.isclose(scores["n3"] / scores["n1"], 0.81, abs_tol=1e-6)
    assert [each.row.id for each in answer.results] == ["n1", "n2", "n3"]


def test_one_recall_walks_the_ancestors_once() -> None:
    """Each parent in the answer that no stage had found was walked from again."""
    family = Family()
    for number in range(30):
        family.born(number, text="other")
    family.born(30, *range(30), text="ledger")
    with mock.patch.object(features, "derivation_depth", wraps=derivation_depth) as walked:
        answer = recall(
            family.world.view(), family.world.rows, RecallRequest(query="ledger"),
            load_profile("stigmem"), reader(), family.world.moment(),
            slots_of_cid=family.world.slots_of_cid, stopwatch=lambda: 0.0,
        )  # fmt: skip
    parents = [each for each in answer.results if each.provenance_of]
    assert len(parents) == 30
    assert {
        (each.score, each.hop_distance, each.confidence, each.contradicted) for each in parents
    } == {(0.0, 0, 1.0, False)}
    assert walked.call_count == 1
