"""The page at /docs, as a browser shows it, with nothing but the node to ask."""

import html
import shutil
import subprocess
from pathlib import Path

import pytest

from engramlog.api.http.openapi import openapi_path
from engramlog.api.routes.table import ROUTES
from tests.worlds.processes import serving

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=5000",
    "--dump-dom",
)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_shows_every_route_and_a_form_to_try_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        shown = subprocess.run(
            [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'browser'}", f"{node.url}/docs"],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        ).stdout
    page = html.unescape(shown)
    for route in ROUTES:
        assert f"{route.method} {openapi_path(route.path)}" in page, route.path
    groups = len({route.group for route in ROUTES})
    assert page.count("<details") >= len(ROUTES) + groups
    assert "<details open" not in page, "every section is folded at first"
    assert "<table" not in page, (
        "a route's tables are built when it is opened, so the page is short"
    )
    assert 'id="search"' in page
