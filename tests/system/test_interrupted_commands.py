"""Commands that are killed while they run; ``tests/campaign`` kills them at every step."""

from pathlib import Path

from tests.worlds.interrupted import Household

ROTATED_STEP = 30
RESTORED_STEP = 30


def test_a_peer_continues_with_a_node_whose_rotation_or_restore_was_interrupted(
    tmp_path: Path,
) -> None:
    household = Household(tmp_path, seed=1)
    try:
        for name, step in (("rotate", ROTATED_STEP), ("restore", RESTORED_STEP)):
            assert household.interrupt_at(name, step)
    finally:
        household.close()
