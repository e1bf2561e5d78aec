"""Real changes, stated by several origins, give the same everywhere."""

from pathlib import Path

import pytest

from tests.worlds.federation.answers import differences
from tests.worlds.federation.congress import DATA, Split
from tests.worlds.federation.schedules import shared_digests

CHANGES = 13_500
"""The first retractions come after 11,644 assertions."""

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.exists(), reason=f"needs {DATA}"),
]


@pytest.mark.parametrize("origins", [3, 5])
def test_origins_that_share_the_stream_agree_and_are_right(tmp_path: Path, origins: int) -> None:
    split = Split(tmp_path, seed=origins, origins=origins)
    try:
        split.tell(CHANGES, one_in=4)
        first, *others = [shared_digests(member) for member in split.members]
        assert len(first) == 2 * origins
        assert others == [first] * len(others)
        for member in split.members:
            assert split.held(member) == split.wanted()
        own, *theirs = split.answers()
        assert [differences(own, each) for each in theirs] == [[]] * len(theirs)
        assert all(len(found) > 1 for name, found in own.items() if name.startswith("default"))
    finally:
        split.close()
