"""One browser per worker, a node per writing test, and one with history to read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from engramlog.api.cli.node.demo import load
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


@pytest.fixture(scope="module")
def kept(browser: Browser) -> Iterator[Console]:
    """A tab with every right for one test after the other: a new one takes a second more."""
    with console(browser, "", key=CONTROL_TOKEN) as tab:
        yield tab


@pytest.fixture
def visit(browser: Browser, kept: Console) -> Iterator[Callable[..., Console]]:
    """Open a tab on a node, by default with every right. ``fresh``: one that the test changes for
    good, by listeners and scripts."""
    with ExitStack() as stack:
        taken: list[str] = []

        def opened(
            node: LiveNode,
            key: str | None = CONTROL_TOKEN,
            *,
            fresh: bool = False,
            size: str = "laptop",
            dark: bool = False,
        ) -> Console:
            if fresh or taken or key != CONTROL_TOKEN:
                return stack.enter_context(
                    console(browser, node.url, key=key, size=size, dark=dark)
                )
            taken.append(node.url)
            stack.callback(kept.leave)
            kept.begin(node.url, size, dark=dark)
            return kept

        yield opened
