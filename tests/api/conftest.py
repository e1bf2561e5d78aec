"""Fixtures: a live node without authentication, one for requests that it refuses, one that requires
keys, and a maker of nodes with other settings."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.worlds.live import LiveNode


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveNode]:
    node = LiveNode(tmp_path / "data")
    yield node
    node.close()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """The same for tests that change nothing by their requests."""
    node = LiveNode(tmp_path_factory.mktemp("refusing") / "data")
    yield node
    node.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., LiveNode]]:
    """Make a live node with the settings (and clock) given."""
    made: list[LiveNode] = []

    def make(**options: object) -> LiveNode:
        node = LiveNode(tmp_path / f"data{len(made)}", **options)  # type: ignore[arg-type]
        made.append(node)
        return node

    yield make
    for node in made:
        node.close()


@pytest.fixture
def guarded(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(auth_required=True)
