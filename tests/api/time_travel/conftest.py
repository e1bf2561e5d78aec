"""A server that takes webhooks."""

from collections.abc import Iterator

import pytest

from tests.worlds.webhook_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
