"""Nodes that have the same streams agree, whatever came when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.federation.network import Member
from tests.federation.schedules import run


def shared(member: Member) -> dict[str, str]:
    """Digests of the streams that everybody replays."""
    found = member.node.reader.stream_digests()
    return {name: each for name, each in found.items() if name.endswith(("/company", "/public"))}


@pytest.mark.parametrize("seed", range(24))
def test_a_random_schedule_ends_in_equal_digests(tmp_path: Path, seed: int) -> None:
    members = run(tmp_path, seed, nodes=2 + seed % 3)
    try:
        digests = [shared(member) for member in members]
        assert all(each == digests[0] for each in digests)
        assert len(digests[0]) >= len(members) - 1
        for member in members:
            assert member.node.status()["degraded"] is None
            assert member.node.rebuild().digest == member.digests().local
    finally:
        for member in members:
            member.close()
