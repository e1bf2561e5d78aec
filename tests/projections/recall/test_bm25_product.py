"""abmind's formula for full-text hits, by its published numbers."""

import numpy as np
import pytest

from engramlog.projections.recall.stages.bm25_product import Product, bm25_product
from tests.projections.recall.remembered import memories


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, 2.5),
        (
            {"emotion": 5, "recall_count": 3, "relevance": 10, "trust": 3, "credibility": 1,
             "core": True},
            22.419083,
        ),
        ({"age_days": 1000.0}, 0.75),
        ({"emotion": -4, "age_days": 182.5}, 2.031652),
    ],
)  # fmt: skip
def test_the_product_is_that_of_the_seeds_formula(own: dict[str, float], expected: float) -> None:
    score = bm25_product(np.array([5.0]), memories(own), Product())
    assert score == pytest.approx([expected], abs=5e-7)


def test_recency_is_within_its_bounds() -> None:
    def scores(*facts: dict[str, float]) -> list[float]:
        return bm25_product(np.full(len(facts), 2.0), memories(*facts), Product()).tolist()

    # At bm25 2 and trust 0 the rest of the product is 1; the emotion's own share is taken out.
    day, ages = scores({"age_days": 1.0}, {"age_days": 1000.0})
    assert 0.99 < day <= 1.01
    assert ages == pytest.approx(0.3)
    glad, sad = scores({"emotion": 3}, {"emotion": -3})
    assert glad == sad
    numbers = Product(emotion=0.0)
    with_feeling = bm25_product(np.ones(1), memories({"emotion": 5, "age_days": 180.0}), numbers)
    without = bm25_product(np.ones(1), memories({"age_days": 180.0}), numbers)
    assert with_feeling[0] / without[0] == pytest.approx(1.5)
