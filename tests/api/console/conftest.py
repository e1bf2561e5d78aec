"""One browser per worker, a node per writing test, and one with history to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from engramlog.api.demo import load
from tests.api.console.browser import Console, check_possible, chromium, console
from tests.worlds.live import CONTROL_TOKEN, LiveNode


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # No longer: Playwright's event loop runs in this thread while it is open, and blocks other
    # tests' loops.
    check_possible()
    with chromium() as opened:
        yield opened


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveNode]:
    """An empty node that requires keys."""
    node = LiveNode(tmp_path / "data", auth_required=True)
    yield node
    node.close()


@pytest.fixture(scope="session")
def spaceflight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node with 68 years of history; read only."""
    data = tmp_path_factory.mktemp("spaceflight") / "data"
    load(data)
    node = LiveNode(data)
    yield node
    node.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Console]]:
    """Open a tab on a node, by default with every right."""
    with ExitStack() as stack:

        def opened(node: LiveNode, key: str | None = CONTROL_TOKEN, **how: Any) -> Console:
            return stack.enter_context(console(browser, node.url, key=key, **how))

        yield opened
