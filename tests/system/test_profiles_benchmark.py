"""The benchmark of profiles: the parts it removes, and its measures of one conversation."""

from pathlib import Path

import pytest

from benchmarks import profiles, question_sets
from engramlog.projections.recall.profile import load_profile


@pytest.mark.parametrize("name", profiles.TAKEN_APART)
def test_every_part_can_be_removed(name: str) -> None:
    made = profiles.ablations(name)
    shipped = [each.name for each in load_profile(name).stages]
    assert [each.name for each in made["as shipped"].stages] == shipped
    assert [each.name for each in made["without Se"].stages] == [
        each for each in shipped if each != "semantic"
    ]
    assert [each.name for each in made["Ss alone"].stages] == ["simhash"]
    assert made["without MMR"].diversity.lambda_mmr == 1.0


@pytest.mark.data
@pytest.mark.skipif(not question_sets.DATA.exists(), reason="../shared/data/locomo is not here")
def test_the_first_search_finds_more_than_the_signatures(tmp_path: Path) -> None:
    conversation = min(question_sets.conversations(), key=lambda each: len(each.turns))
    made = profiles.ablations("abmind")
    systems = {name: made[name] for name in ("Sf alone", "Ss alone")}
    with question_sets.stored(tmp_path, [conversation], None) as stores:
        asked = profiles.ask_all(stores, systems)
    lexical, signatures = asked["Sf alone"], asked["Ss alone"]
    assert len(lexical) == len(conversation.questions)
    # As specified, signatures are mostly noise.
    assert profiles.share_found(lexical, 10) > profiles.share_found(signatures, 10) + 0.2
