"""What a caller may not read shows in no answer to what they write."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, note, settings

from tests.api.mixed_worlds import MINGLED, histories, two_mixed
from tests.api.private_worlds import Step
from tests.api.test_no_leak import reads, same

FEW = settings(
    max_examples=5,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example costs seconds
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@given(histories)
@FEW
def test_classified_facts_beside_open_ones_show_in_no_read(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path, two_mixed(Path(path), history) as (told, untold):
        note(f"{len(told.open)} open, {len(told.hidden)} classified")
        for ask in reads(told):
            same(told, untold, ask)


def test_classified_facts_at_every_turn_show_in_no_read(tmp_path: Path) -> None:
    with two_mixed(tmp_path, MINGLED) as (told, untold):
        assert len(told.hidden) >= 6
        for ask in reads(told):
            same(told, untold, ask)
