"""One browser per worker, a node per writing test, and one with history to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from engramlog.api.demo import load
from tests.api.console.browser import Console, check_possible, chromium, console
from tests.worlds.live import CONTROL_TOKEN, LiveNode


@pytest.fixture(scope="module")
def tabs() -> Iterator[BrowserContext]:
    # Not longer: while Playwright is open its event loop runs in this thread, and other tests
    # cannot start one of their own.
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


@pytest.fixture(scope="module")
def kept(tabs: BrowserContext) -> Iterator[Console]:
    """A tab with every right, for one test after the other: a fresh one takes a second more."""
    with console(tabs, CONTROL_TOKEN) as tab:
        yield tab


@pytest.fixture
def visit(tabs: BrowserContext, kept: Console) -> Iterator[Callable[..., Console]]:
    """Open a tab on a node, by default with every right. One that a test changes is ``fresh``."""
    with ExitStack() as stack:

        def opened(
            node: LiveNode,
            key: str | None = CONTROL_TOKEN,
            *,
            fresh: bool = False,
            size: str = "laptop",
            dark: bool = False,
        ) -> Console:
            tab = kept
            if fresh or key != CONTROL_TOKEN:
                tab = stack.enter_context(console(tabs, key))
            tab.begin(node.url, size, dark)
            return tab

        yield opened
        kept.leave()
