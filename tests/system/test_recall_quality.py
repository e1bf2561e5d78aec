"""The benchmark's measures, and their values for one conversation if its data exists."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import question_sets, recall_quality
from benchmarks.passage_questions import TWO_PASSAGES
from benchmarks.ranking import auc, found, paired_bootstrap
from benchmarks.table_questions import TABLES


def test_found_is_the_share_of_the_evidence_in_a_ranking() -> None:
    assert found(["x", "a", "x", "b", "c"], frozenset("abcd")) == 0.75


def test_the_bootstrap_is_of_the_paired_differences() -> None:
    same = paired_bootstrap([0.2, 0.9, 0.4], [0.2, 0.9, 0.4], resamples=50)
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)
    chance = np.random.default_rng(1)
    theirs = chance.random(200)
    better = paired_bootstrap((theirs + 0.1).tolist(), theirs.tolist(), resamples=50)
    assert (better.low, better.high) == pytest.approx((0.1, 0.1))


def test_every_system_and_variant_is_a_valid_profile() -> None:
    assert {"default", recall_quality.BASELINE} < recall_quality.systems().keys()
    assert len(recall_quality.variants()) > 5


def test_the_environment_names_another_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recall_quality.embedder() == recall_quality.BUNDLED
    monkeypatch.setenv("STIGMEM_EMBED_PROVIDER", "ollama")
    monkeypatch.setenv("STIGMEM_EMBED_MODEL", "mxbai-embed-large")
    named = recall_quality.embedder()
    assert (named.provider, named.model) == ("ollama", "mxbai-embed-large")


def test_the_area_under_the_curve_counts_pairs_and_halves_of_equals() -> None:
    # Of six pairs 0.9 wins two, 0.5 wins one and draws one, 0.1 wins none.
    assert auc([0.9, 0.5, 0.1], [0.5, 0.2]) == pytest.approx(3.5 / 6)


def test_a_text_outside_conversations_is_a_fact_and_a_separate_entity() -> None:
    passage = question_sets.Turn("7", "Rome\nA city.", None, None)
    made = question_sets.intent_of_turn("musique_train", passage).fact
    assert (made.entity, made.relation) == ("stigmem://musique-train.example/doc/7", "text")
    assert (made.source, made.valid_from) == (made.entity, None)
    said = question_sets.Turn("1", "Fahim Khan: Hi", "29.12.2023, 00:31:46", "s1")
    made = question_sets.intent_of_turn("Chat_9", said).fact
    assert made.entity == "stigmem://chat-9.example/person/fahim-khan"
    assert made.source == "stigmem://chat-9.example/session/s1"
    assert made.valid_from == "2023-12-29T00:31:46Z"
    channel = question_sets.intent_of_turn("Chat_9", said, channel=True).fact
    assert (channel.entity, channel.source) == (made.source, made.entity)
    assert channel.value.v == "Hi"


def test_an_excerpt_is_a_memory_that_knows_only_its_own_turns() -> None:
    turns = tuple(question_sets.Turn(str(n), f"turn {n}", None, None) for n in range(20))
    asked = tuple(
        question_sets.Question(f"q{n}", f"what is {n}?", "1", frozenset({str(n), "19"}))
        for n in range(19)
    )
    whole = question_sets.Conversation("some", turns, asked)
    for part in question_sets.excerpts(whole, 5, 8):
        held = {turn.id for turn in part.turns}
        first = int(part.turns[0].id)
        assert [turn.id for turn in part.turns] == [str(first + n) for n in range(5)]
        assert [each.id for each in part.questions] == [f"q{first + n}" for n in range(5)]
        assert all(each.evidence and each.evidence <= held for each in part.questions)
        assert not any(each.evidence for each in part.unanswerable)
        assert {each.id for each in part.questions}.isdisjoint(e.id for e in part.unanswerable)
        assert len(part.unanswerable) == 5


@pytest.mark.data
@pytest.mark.parametrize(
    "chosen",
    [pytest.param(each, marks=pytest.mark.skipif(
        not each.path.exists(), reason=f"../shared/data/{each.path.name} is not here"
    ), id=each.name) for each in (*question_sets.SETS, TWO_PASSAGES, *TABLES)],
)  # fmt: skip
def test_default_finds_more_than_plain_bm25(
    tmp_path: Path, chosen: question_sets.QuestionSet
) -> None:
    """Without a model: the words alone, read in their conversation."""
    systems = recall_quality.systems()
    smallest = min(chosen.conversations(), key=lambda each: len(each.turns))
    with question_sets.stored(tmp_path, [smallest], None) as (store,):
        shares = {
            name: np.mean(
                [
                    recall_quality.answered(store, systems[name], question, chosen.cut).found
                    for question in smallest.questions
                ]
            )
            for name in ("default", recall_quality.BASELINE)
        }
    assert shares["default"] > shares[recall_quality.BASELINE] - 0.02
