"""The console on a large memory: each view's requests, bytes and time.

Milliseconds are from the action to the last answer in the page, in headless Chromium on the same
machine; requests and bytes do not depend on the machine. ``ENGRAMLOG_CONSOLE_DATA`` names a
directory that keeps the memory for later runs.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.console_world import HUB, build
from benchmarks.processes import usage_of
from benchmarks.report import Figure, say
from benchmarks.serving import serving_process, wait_ready
from tests.api.console.browser import BROWSER, BUILT, Console, address, chromium, console

FOLDER = "ENGRAMLOG_CONSOLE_DATA"
QUIET = {"STIGMEM_EMBED_ENABLED": "false"}
QUESTION = "who decided on the quarterly billing migration?"
PAINTED_AIM, ANSWERED_AIM = "≤ 1000 ms", "≤ 100 ms"
REPEATS = 3
_BEATS = ("/readyz", "/metrics")
"""The page's periodic requests."""

_BEGIN = """() => {
  performance.clearResourceTimings();
  window.began = performance.now();
}"""
_PAINTED = "performance.getEntriesByType('paint').at(-1).startTime"
_ANSWERED = """() => performance.getEntriesByType('resource')
  .filter(each => each.startTime >= window.began)
  .map(each => [new URL(each.name).pathname, each.responseEnd - window.began,
    each.encodedBodySize])"""

Asked = tuple[int, int, float, float]
"""Requests, bytes, milliseconds until the last answer, and milliseconds of the node's processor
time."""


def measure(facts: int) -> list[Figure]:
    """Figures for every view on a memory of this many facts."""
    if BROWSER is None or not BUILT.is_file():
        say("console: skipped, needs Chromium and a built console")
        return []
    with ExitStack() as stack:
        folder = os.environ.get(FOLDER) or stack.enter_context(tempfile.TemporaryDirectory())
        data = Path(folder) / f"facts-{facts}"
        if not data.exists():
            say(f"a memory of {facts:,} facts")
            build(data, facts)
        url, pid = stack.enter_context(serving_process(data, env=QUIET))
        wait_ready(url)
        browser = stack.enter_context(chromium())
        tab = stack.enter_context(console(browser, url))
        return _figures(tab, pid)


def _figures(tab: Console, pid: int) -> list[Figure]:
    tab.open()  # fills caches that the first request fills
    tab.open()
    figures = [Figure("first page painted", tab.page.evaluate(_PAINTED), "ms", aim=PAINTED_AIM)]
    figures.append(Figure("first page answered", tab.page.evaluate(_LOADED), "ms", aim=PAINTED_AIM))
    head = str(tab.page.evaluate("fetch('/readyz').then(a => a.json()).then(a => a.position)"))
    for name, act in _actions(head):
        tab.open()
        asked = [_asked(tab, act, pid) for _ in range(REPEATS)]
        # Each measure's least: what else runs on the machine, or in the node, comes on top.
        requests, size, milliseconds, used = map(min, zip(*asked, strict=True))
        figures += [
            Figure(f"{name}, answered", milliseconds, "ms", aim=ANSWERED_AIM),
            Figure(f"{name}, processor time of the node", used, "ms"),
            Figure(f"{name}, requests", requests, ""),
            Figure(f"{name}, bytes", size, ""),
        ]
    return figures


_LOADED = """Math.max(...performance.getEntriesByType('resource').map(each => each.responseEnd))"""

Action = Callable[[Console], Any]


def _actions(head: str) -> list[tuple[str, Action]]:
    middle = f"position:{int(head) // 2}"
    return [
        ("search, one letter", _typed("l")),
        ("search, a word", _typed("ledger")),
        ("search, two words", _typed("ledger billing")),
        ("search, a number that few hold", _typed("99999")),
        ("search, in no fact", _typed("zzzz")),
        ("hub", _gone("entity", name=HUB)),
        ("hub, half way back", _gone("entity", name=HUB, at=middle)),
        ("first page, half way back", _gone("search", at=middle)),
        ("graph", _gone("graph")),
        ("log, at the head", _gone("log")),
        ("log, at the far end", _gone("log", at="position:300")),
        ("log, a rare kind", _gone("log", kind="set_valued_declared")),
        ("log, one event", _gone("log", event=str(int(head) // 2))),
        ("conflicts", _gone("review")),
        ("conflicts, settled", _gone("review", status="resolved")),
        ("two moments compared", _gone("time", since=f"position:{int(head) // 3}", at=middle)),
        ("who knew a hub when", _gone("time", since=middle, entity=HUB)),
        ("recall", _gone("recall", q=QUESTION)),
        ("operations", _gone("operations")),
        ("peers", _gone("peers")),
    ]


def _typed(text: str) -> Action:
    def act(tab: Console) -> None:
        tab.page.fill(".search-field input", text)

    return act


def _gone(view: str, **params: str) -> Action:
    def act(tab: Console) -> None:
        tab.page.evaluate("hash => { location.hash = hash }", address(view, **params))

    return act


def _asked(tab: Console, act: Action, pid: int) -> Asked:
    """The requests of an action in the page, which starts from the first page."""
    tab.page.evaluate("location.hash = '#/start'")
    tab.settle()
    used = usage_of(pid).seconds
    tab.page.evaluate(_BEGIN)
    act(tab)
    tab.page.wait_for_timeout(PAUSE_MS)
    tab.settle()
    used = 1000 * (usage_of(pid).seconds - used)
    answers = [each for each in tab.page.evaluate(_ANSWERED) if each[0] not in _BEATS]
    last = max((each[1] for each in answers), default=0.0)
    return len(answers), sum(each[2] for each in answers), last, used


PAUSE_MS = 150
"""The search field waits a little for the next letter."""
