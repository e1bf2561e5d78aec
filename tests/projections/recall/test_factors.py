import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns.names.machine_names import is_machine
from engramlog.projections.recall.factors.factors import (
    FACTORS,
    NAMED_STAGES,
    Confidence,
    Floor,
    PerHop,
    Recency,
    Speaker,
    Statement,
    Substance,
    Tier,
    Unresolved,
    access_frequency,
    confidence,
    contradiction,
    derivation,
    garden_tier,
    recency,
    source_trust,
    speaker,
    statement,
    substance,
)
from engramlog.projections.recall.factors.features import Features
from engramlog.projections.recall.request import Situation
from tests.projections.recall.remembered import memories, recalled_every
from tests.worlds.recall_world import NOW_US


def features(
    *,
    age_days: tuple[float, ...] = (0.0, 30.0, 365.0),
    access: tuple[int, ...] = (0, 1, 9),
) -> Features:
    count = len(age_days)
    return Features(
        age_days=np.array(age_days),
        confidence=np.array((1.0, 0.5, 0.25)[:count]),
        source_trust=np.array((1.0, 0.5, 0.0)[:count]),
        access_count=np.array(access, dtype=np.int64),
        contradicted=np.array((False, True, True)[:count]),
        outdated=np.array((False, False, True)[:count]),
        revised=np.array((False, False, True)[:count]),
        in_garden=np.array((False, True, True)[:count]),
        in_quarantine=np.array((False, False, True)[:count]),
        derivation_depth=np.array((0, 1, 3)[:count], dtype=np.int64),
        terms=np.array((3, 6, 9)[:count], dtype=np.int32),
        asking=np.array((0.0, 0.5, 1.0)[:count]),
        instant_us=NOW_US,
        situation=Situation(hour=10, day_of_week=4, topic="work"),
        raw={"one": np.array((3.0, 2.0, 1.0)), "other": np.array((0.0, 1.0, 0.0))},
        strong=np.array((True, False, False)),
        cosine=np.array((0.1, 0.2, np.nan)),
        machine=np.array((False, True, False)[:count]),
        memories=memories(
            *(
                {
                    "age_days": days,
                    "emotion": emotion,
                    "recall_count": times,
                    "recalls": recalled_every(interval, 6),
                    "rejected": times,
                }
                for days, emotion, times, interval in zip(
                    age_days, (5, -5, 0), access, (8.0, 2.0, 0.5), strict=True
                )
            )
        ),
    )


def test_recency_falls_by_one_percent_a_day() -> None:
    # exp(0) = 1; exp(-0.3) = 0.740818; exp(-3.65) = 0.025991
    assert recency(features(), Recency()) == pytest.approx([1.0, 0.740818, 0.025991], abs=1e-6)


def test_recency_never_falls_below_its_floor() -> None:
    # 0.9 + 0.1 * 0.025991 = 0.902599
    assert recency(features(), Recency(floor=0.9))[2] == pytest.approx(0.902599, abs=1e-6)


def test_confidence_is_itself_above_the_floor() -> None:
    assert list(confidence(features(), Confidence())) == [1.0, 0.5, 0.25]
    # 0.5 + 0.5 * c
    assert list(confidence(features(), Confidence(floor=0.5))) == [1.0, 0.75, 0.625]


def test_each_derivation_hop_leaves_nine_tenths() -> None:
    # 0.9^0 = 1; 0.9^1 = 0.9; 0.9^3 = 0.729
    assert derivation(features(), PerHop()) == pytest.approx([1.0, 0.9, 0.729], abs=1e-12)
    assert derivation(features(), PerHop(per_hop=1.0)).tolist() == [1.0, 1.0, 1.0]


def test_access_frequency_is_log_normalised_within_the_set() -> None:
    # ln(1) / ln(10) = 0; ln(2) / ln(10) = 0.301030; ln(10) / ln(10) = 1; over a floor of 0.5
    assert access_frequency(features(), Floor(0.5)) == pytest.approx([0.5, 0.650515, 1.0], abs=1e-6)


def test_access_frequency_is_one_where_nothing_was_returned_yet() -> None:
    assert list(access_frequency(features(access=(0, 0, 0)), Floor())) == [1.0, 1.0, 1.0]


def test_an_unresolved_contradiction_costs_three_tenths() -> None:
    assert list(contradiction(features(), Unresolved())) == [1.0, 0.7, 0.7]


def test_a_value_that_its_source_replaced_costs_more() -> None:
    # 0.7 * 0.5 = 0.35
    found = contradiction(features(), Unresolved(outdated=0.5))
    assert found == pytest.approx([1.0, 0.7, 0.35], abs=1e-12)


def test_what_only_its_own_source_disagrees_with_has_a_value_of_its_own() -> None:
    # the third: 0.9 * 0.5 = 0.45
    found = contradiction(features(), Unresolved(revised=0.9, outdated=0.5))
    assert found == pytest.approx([1.0, 0.7, 0.45], abs=1e-12)


def test_the_garden_tier_touches_gardens_only() -> None:
    assert list(garden_tier(features(), Tier(0.5, 0.2))) == [1.0, 0.5, 0.2]
    assert list(garden_tier(features(), Tier())) == [1.0, 1.0, 0.2]


def test_source_trust_halves_an_unvouched_fact() -> None:
    # 0.5 + 0.5 * t
    assert list(source_trust(features(), Floor())) == [1.0, 0.75, 0.5]


@given(
    age=st.floats(0, 1e6),
    counts=st.lists(st.integers(0, 2**40), min_size=3, max_size=3),
)
@pytest.mark.parametrize("name", sorted(FACTORS))
def test_every_factor_stays_in_its_declared_range(name: str, age: float, counts: list[int]) -> None:
    factor = FACTORS[name]
    named = {
        field: {"stage": "one", "by": "other"}[field]
        for field in factor.parameters.__struct_fields__
        if field in NAMED_STAGES
    }
    at = features(age_days=(0.0, age, age * 2), access=(counts[0], counts[1], counts[2]))
    values = factor.compute(at, factor.parameters(**named))
    low, high = factor.range
    assert len(values) == 3
    assert all(low <= value <= high and math.isfinite(value) for value in values)


@given(st.floats(0, 1e4), st.floats(0, 1e4))
def test_older_is_never_more_recent(one: float, other: float) -> None:
    younger, older = sorted((one, other))
    at = recency(features(age_days=(younger, older, older)), Recency())
    assert at[0] >= at[1]


def test_a_fact_that_only_asks_has_the_floor() -> None:
    # 1 - 0.6 × the share that asks
    assert statement(features(), Statement(floor=0.4)).tolist() == pytest.approx([1.0, 0.7, 0.4])


def test_substance_grows_with_length_towards_the_longest() -> None:
    # 3, 6 and 9 terms: 3/9, 6/12 and 9/15; of the highest 5/9, 5/6 and 1
    found = substance(features(), Substance(floor=0.4))
    assert found.tolist() == pytest.approx([0.4 + 0.6 * 5 / 9, 0.9, 1.0])


def test_a_long_question_is_no_question() -> None:
    # 3, 6 and 9 terms of which none, half and all ask: the penalty is whole up to 5 terms and
    # gone from 10 on, so 4/5 of it is left at 6 terms and 1/5 at 9
    found = statement(features(), Statement(floor=0.5, whole_terms=5, gone_terms=10))
    assert found.tolist() == pytest.approx([1.0, 1 - 0.5 * 0.5 * 0.8, 1 - 0.5 * 0.2])


def test_substance_is_whole_from_a_length_on_beside_any_facts() -> None:
    found = substance(features(), Substance(floor=0.4, terms=6))
    assert found.tolist() == pytest.approx([0.7, 1.0, 1.0])


def test_a_machines_words_count_less() -> None:
    assert speaker(features(), Speaker(machine=0.6)).tolist() == [1.0, 0.6, 1.0]


@pytest.mark.parametrize(
    ("entity", "machine"),
    [
        ("stigmem://acme.example/person/assistant", True),
        ("stigmem://acme.example/speaker/Weather-Bot", True),
        ("stigmem://acme.example/chat/AI", True),
        ("stigmem://acme.example/person/aida", False),
        ("stigmem://acme.example/assistant/anna", False),
        ("stigmem://acme.example/person/user", False),
    ],
)
def test_a_machine_is_recognised_by_its_name(entity: str, machine: bool) -> None:
    assert is_machine(entity) is machine
