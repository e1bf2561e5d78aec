"""Nothing a user can meet is missing from the pages."""

import re
import tomllib
from pathlib import Path

import pytest

from engramlog.api.http.error_codes import ERRORS
from engramlog.api.routes.table import ROUTES
from engramlog.api.settings import Settings
from engramlog.eventlog.kinds import SCHEMA_VERSIONS
from engramlog.projections.tables.registry import PROJECTORS
from tests.worlds.documented_console import ROOT

DOCS = ROOT / "docs"
EVERYTHING = "\n".join(page.read_text() for page in [ROOT / "README.md", *DOCS.glob("*.md")])


@pytest.mark.parametrize("kind", sorted(SCHEMA_VERSIONS))
def test_every_event_kind_is_described(kind: str) -> None:
    assert f"`{kind}`" in (DOCS / "log.md").read_text()


@pytest.mark.parametrize("projector", PROJECTORS, ids=lambda projector: projector.name)
def test_every_projector_and_its_tables_are_described(projector: object) -> None:
    """On the page of projections, or next to the one kind that it reads."""
    pages = (DOCS / "projections.md").read_text() + (DOCS / "log.md").read_text()
    name, tables = projector.name, projector.tables  # type: ignore[attr-defined]
    for word in (name, *tables):
        assert f"`{word}`" in pages


def test_the_page_of_errors_lists_every_code() -> None:
    parts: list[str] = []
    for status, rows in ERRORS.items():
        parts.append(f"## {status}\n")
        for codes, meaning in rows.items():
            parts.append(f"- {', '.join(f'`{code}`' for code in codes.split())}: {meaning}")
        parts.append("")
    text = "\n".join(parts)
    assert text in (DOCS / "errors.md").read_text(), f"put this into errors.md:\n{text}"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_pages_name_every_route(route: object) -> None:
    path = re.sub(r"\{\w+?_?(id)\}", r"{\1}", route.path)  # type: ignore[attr-defined]
    assert path in EVERYTHING, path


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_listed(name: str) -> None:
    assert f"STIGMEM_{name.upper()}" in (DOCS / "settings.md").read_text()


def test_every_dependency_earns_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    page = (DOCS / "dependencies.md").read_text()
    for requirement in wanted:
        assert re.split(r"[<>=\[;]", requirement)[0].strip() in page, requirement


def test_every_metric_is_listed() -> None:
    code = "\n".join(
        path.read_text()
        for path in (
            ROOT / "api/http/metrics.py",
            ROOT / "api/routes/node/metrics.py",
            ROOT / "api/routes/node/metrics.py",
        )
    )
    page = (DOCS / "monitoring.md").read_text()
    for name in sorted(set(re.findall(r'"((?:engramlog|stigmem|process)_[a-z_]+)"', code))):
        if not name.endswith(("_bucket", "_sum", "_count")):
            assert f"`{name}`" in page, name


LINKED = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "eventlog" / "FORMAT.md",
    *sorted(DOCS.glob("*.md")),
]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#([^)]+))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} → {target}"
        if anchor:
            assert anchor in anchors_of(file), f"{page.name} → {target}#{anchor}"


def test_every_page_has_a_place_in_the_contents() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (DOCS / "README.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - linked == {"README.md"}


def anchors_of(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_command_is_shown() -> None:
    commands = ("serve", "import", "export", "recall", "facts", "replay", "decay", "key",
                "identity", "demo")  # fmt: skip
    for command in commands:
        assert f"engramlog {command}" in EVERYTHING, command
