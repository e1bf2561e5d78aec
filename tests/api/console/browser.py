"""Chromium on the console: the system's own browser, driven by Playwright, which fetches none."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

ROOT = Path(__file__).resolve().parents[3]
BUILT = ROOT / "api" / "web" / "dist" / "index.html"
AXE = ROOT / "api" / "web" / "node_modules" / "axe-core" / "axe.min.js"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = os.environ.get("ENGRAMLOG_CONSOLE_TESTS") == "required"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Fewer processes to start: a tab of a test has no secrets from another's.
    "--in-process-gpu",
    "--renderer-process-limit=1",
)
SIZES = {"phone": (390, 844), "laptop": (1366, 820), "wide": (1920, 1080)}
KEY = "engramlog.key"
LOOK_MS = 40
QUIET_LOOKS = 3
"""Consecutive looks without open requests: then the view is complete."""


def check_possible() -> None:
    """Skip without a browser or a console; fail where both are required."""
    reason = ""
    if BROWSER is None:
        reason = "needs Chromium: apt-get install chromium"
    elif not BUILT.is_file():
        reason = "the console is not built: make setup, with the npm registry in reach"
    if reason and REQUIRED:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser with its own profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Console:
    """A tab on a node's console. ``faults``: complaints of scripts and policy; ``requests``: the
    requested addresses."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.faults: list[str] = []
        self.requests: list[str] = []
        self._waiting: set[Request] = set()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)
        self.page.on("requestfinished", self._answered)
        self.page.on("requestfailed", self._answered)

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        self._waiting.add(request)

    def _answered(self, request: Request) -> None:
        self._waiting.discard(request)

    def _said(self, message: Any) -> None:
        # A refused request is the page's to show; the browser reports it as an error as well.
        refused = "Failed to load resource: the server responded with a status of"
        if message.type in ("error", "warning") and not message.text.startswith(refused):
            self.faults.append(message.text)

    def begin(self, url: str, size: str, *, dark: bool) -> None:
        """Turn to a node, as a new tab would; ``open`` loads its console."""
        self.url = url
        self.resize(size)
        self.page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        for seen in (self.faults, self.requests, self._waiting):
            seen.clear()

    def leave(self) -> None:
        """End the console's page and forget what it kept."""
        if self.page.url.startswith("http"):
            self.page.evaluate("sessionStorage.clear()")
        self.page.goto("about:blank")

    def open(self, view: str = "search", **params: str) -> Page:
        """Load the console at a view, as from a typed address, and wait for it."""
        self.page.goto("about:blank")
        return self.go(view, **params)

    def go(self, view: str, **params: str) -> Page:
        """Go to a view from the one that is open, and wait for it."""
        self.page.goto(f"{self.url}/ui{address(view, **params)}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until a view is there and nothing is on its way."""
        self.page.wait_for_selector("#content h1")
        quiet = 0
        while quiet < QUIET_LOOKS:
            self.page.wait_for_timeout(LOOK_MS)
            quiet = 0 if self._waiting else quiet + 1

    def resize(self, size: str) -> None:
        """Make the window another one."""
        width, height = SIZES[size]
        self.page.set_viewport_size({"width": width, "height": height})

    def elsewhere(self) -> list[str]:
        """Addresses that are not the node's own."""
        own = (self.url, "about:", "data:", "blob:")
        return [each for each in self.requests if not each.startswith(own)]


def address(view: str, **params: str) -> str:
    """The part of an address behind ``/ui``."""
    query = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in params.items())
    return f"#/{view}{'?' + query if query else ''}"


@contextmanager
def console(
    browser: Browser, url: str, *, key: str | None = None, size: str = "laptop", dark: bool = False
) -> Generator[Console]:
    """A new tab, with a key in its session storage if given."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    if key is not None:
        script = f"if (location.protocol === 'http:') sessionStorage.setItem('{KEY}', '{key}')"
        context.add_init_script(script)
    try:
        yield Console(context, url)
    finally:
        context.close()


def overflow_of(page: Page) -> int:
    """How many pixels wider than its window the drawn page is."""
    return page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
        " done(document.documentElement.scrollWidth - innerWidth))))"
    )


def faults_of(page: Page, part: str = "html") -> list[str]:
    """The serious and critical findings of axe-core in a part of the page. The driver evaluates it,
    outside the page's policy."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate(
        "part => axe.run(part, { resultTypes: ['violations'],"
        " runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] })",
        part,
    )
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes']][:3]} {each['help']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
