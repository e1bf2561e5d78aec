"""Fixtures of the tests of projections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.node.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    yield node
    node.close()
