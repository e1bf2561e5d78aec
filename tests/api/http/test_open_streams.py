"""The streams of one caller share its time; those of others are not slower for it."""

from contextlib import ExitStack

import pytest

from engramlog.api.http.state.open_streams import OpenStreams


@pytest.mark.parametrize("count", [2, 9, 450])
def test_many_streams_of_a_caller_work_a_quarter_of_the_time(count: int) -> None:
    streams = OpenStreams()
    with ExitStack() as opened:
        opened.enter_context(streams.opened("agent:other"))
        for _ in range(count):
            opened.enter_context(streams.opened("agent:many"))
        rest = streams.rest_seconds("agent:many", 0.002)
        at_once = count * 0.002 / (0.002 + rest)
        assert 0.25 <= at_once <= 0.25 * count / (count - 1)
        assert streams.events_max("agent:many", 500) * count <= max(500, count)
        assert streams.rest_seconds("agent:other", 0.002) == 0
        assert streams.events_max("agent:other", 500) == 500


def test_a_closed_stream_counts_no_more() -> None:
    streams = OpenStreams()
    with streams.opened("agent:one"):
        with streams.opened("agent:one"):
            assert streams.events_max("agent:one", 500) == 250
        assert streams.rest_seconds("agent:one", 1.0) == 0
