"""Salience: the goldens of the formula, its bounds, and recency that never grows with age."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.episodes.salience import (
    SalienceContext,
    SalienceWeights,
    salience,
)

NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
SEED = {"frequency": "mul"}


def context(age_us: int, accesses: int, rules: int, **fields: object) -> SalienceContext:
    return SalienceContext(
        now_us=NOW_US,
        last_access_us=NOW_US - age_us,
        access_count=accesses,
        rule_match_count=rules,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("age_us", "accesses", "rules", "expected"),
    [
        (HOUR_US, 20, 15, 0.9201122956331096),
        (24 * HOUR_US, 10, 5, 0.213380),
        (0, 1000, 1000, 1.0),
        (0, 0, 1000, 0.0),
        (0, 1000, 0, 0.0),
    ],
)
def test_salience_is_that_of_the_seeds_formula(
    age_us: int, accesses: int, rules: int, expected: float
) -> None:
    assert salience(context(age_us, accesses, rules, frequency="mul")) == pytest.approx(
        expected, abs=1e-6 if expected != 0.9201122956331096 else 1e-9
    )


def test_an_access_in_the_future_is_no_more_than_now() -> None:
    assert salience(context(-HOUR_US, 1000, 1000, frequency="mul")) == 1.0
    assert salience(context(-(10**17), 1000, 1000)) == 1.0


def test_an_untouched_episode_still_counts_unless_frequency_multiplies() -> None:
    assert salience(context(0, 0, 0)) == 0.25
    assert salience(context(0, 0, 0, frequency="mul")) == 0.0


def test_relevance_and_importance_add_up() -> None:
    weights = SalienceWeights(recency=0.5, relevance=0.3, importance=0.2)
    scored = context(86_400_000_000, 10_000, 10_000, weights=weights, relevance=0.5, importance=1.0)
    assert salience(scored) == pytest.approx(0.5 * math.exp(-1) + 0.15 + 0.2)


def test_a_scale_that_is_not_above_zero_is_refused() -> None:
    for tau in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="tau_seconds"):
            context(0, 1, 1, tau_seconds=tau)


contexts = st.builds(
    context,
    age_us=st.integers(0, 10 * 365 * 24 * HOUR_US),
    accesses=st.integers(0, 10_000),
    rules=st.integers(0, 10_000),
    tau_seconds=st.floats(1.0, 1e6),
    relevance=st.floats(-1.0, 1.0),
    importance=st.floats(0.0, 1.0),
    weights=st.builds(
        SalienceWeights, st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.floats(0.0, 2.0)
    ),
    frequency=st.sampled_from(("add", "mul")),
)


@given(contexts)
def test_scores_lie_between_nothing_and_one(scored: SalienceContext) -> None:
    assert 0.0 <= salience(scored) <= 1.0


@given(contexts, st.integers(0, 10 * 365 * 24 * HOUR_US))
def test_older_never_scores_higher(scored: SalienceContext, more_us: int) -> None:
    import msgspec

    older = msgspec.structs.replace(scored, last_access_us=scored.last_access_us - more_us)
    assert salience(older) <= salience(scored)


def test_frequency_and_matches_multiply_as_in_the_seed() -> None:
    scored = context(HOUR_US, 20, 15, frequency="mul")
    assert salience(scored) == pytest.approx(0.9201122956331096, abs=1e-9)
