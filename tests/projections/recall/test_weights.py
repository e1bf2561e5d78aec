import math

import pytest

from engramlog.projections.recall.ranking.fusion import redistribute
from engramlog.projections.recall.request import WeightsError, parse_weights


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ({"lex": 0.3, "vec": 0.5, "graph": 0.2}, {"lexical": 0.3, "semantic": 0.5, "graph": 0.2}),
        (
            {"lexical": 0.3, "vector": 0.5, "graph": 0.2},
            {"lexical": 0.3, "semantic": 0.5, "graph": 0.2},
        ),
        ({"lexical": 1.0}, {"lexical": 1.0, "semantic": 0.0, "graph": 0.0}),
        ({"lex": 0.6, "graph": 0.4}, {"lexical": 0.6, "semantic": 0.0, "graph": 0.4}),
        ({"lexical": 0.9, "semantic": 0.9}, {"lexical": 0.9, "semantic": 0.9}),
        ({"lexical": 0.9, "recency": 0.0}, {"lexical": 0.9, "recency": 0.0}),
        ({"unknown": 7, "semantic": 1}, {"semantic": 1.0}),
        ({}, {}),
    ],
)
def test_every_spelling_becomes_canonical(
    given: dict[str, object], parsed: dict[str, float]
) -> None:
    assert parse_weights(given) == parsed


@pytest.mark.parametrize("total", [0.999, 1.0, 1.001])
def test_seed_weights_may_miss_one_by_a_thousandth(total: float) -> None:
    assert parse_weights({"lex": 0.5, "vec": total - 0.5})["lexical"] == 0.5


@pytest.mark.parametrize(
    "given",
    [
        {"lex": 0.5, "vec": 0.498},
        {"lexical": 0.5, "vector": 0.502},
        {"lexical": 0.5},
        {"lex": 0, "vec": 0, "graph": 0},
        {"graph": 1.5},
        {"semantic": -0.1},
        {"semantic": "0.5"},
        {"semantic": True},
        {"semantic": math.nan},
        {"lex": 0.5, "lexical": 0.5},
        {"vec": 0.5, "semantic": 0.5},
    ],
)
def test_wrong_weights_are_refused_by_name(given: dict[str, object]) -> None:
    with pytest.raises(WeightsError) as refused:
        parse_weights(given)
    assert refused.value.code == "invalid_weights"


def test_protocol_weights_may_all_be_zero() -> None:
    keys = ("lexical", "semantic", "graph", "source_trust", "recency")
    assert parse_weights(dict.fromkeys(keys, 0.0)) == dict.fromkeys(keys, 0.0)


def test_weights_of_missing_stages_go_to_the_others_in_proportion() -> None:
    # semantic (0.5) did not run: 0.3 and 0.2 share it 3 to 2, so 0.6 and 0.4.
    weights = {"lexical": 0.3, "semantic": 0.5, "graph": 0.2}
    used = redistribute(weights, ["lexical", "graph"], weights)
    assert used == pytest.approx({"lexical": 0.6, "graph": 0.4})


def test_adding_factors_share_in_the_sum() -> None:
    # 0.3 + 0.1 + 0.1 = 0.5, so everything doubles.
    weights = {"lexical": 0.3, "graph": 0.1, "recency": 0.1}
    used = redistribute(weights, ["lexical", "graph"], weights, ["recency"])
    assert used == pytest.approx({"lexical": 0.6, "graph": 0.2, "recency": 0.2})


def test_preferring_nothing_falls_back_to_the_profile_and_then_to_equal_weights() -> None:
    zero = {"lexical": 0.0, "graph": 0.0}
    # 0.3 : 0.1 is 0.75 : 0.25.
    assert redistribute(zero, ["lexical", "graph"], {"lexical": 0.3, "graph": 0.1}) == (
        pytest.approx({"lexical": 0.75, "graph": 0.25})
    )
    assert redistribute(zero, ["lexical", "graph"], zero) == {"lexical": 0.5, "graph": 0.5}
    assert redistribute(zero, [], zero) == {}
