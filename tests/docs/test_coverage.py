"""Nothing a user can meet is missing from the pages."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from engramlog.api.cli.main import COMMANDS
from engramlog.api.http.error_codes import ERRORS
from engramlog.api.mcp.tools import TOOLS
from engramlog.api.routes.table import ROUTES
from engramlog.api.transfer.lines.line_kinds import OPERATIONS, OwnLine
from engramlog.eventlog.kinds import SCHEMA_VERSIONS
from engramlog.projections.audit.subscription_events import EVENT_TYPES
from engramlog.projections.recall.factors.factors import FACTORS
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


def test_every_recall_factor_is_described() -> None:
    pages = (DOCS / "recall-profiles.md").read_text() + (DOCS / "abmind-profiles.md").read_text()
    assert [name for name in FACTORS if f"`{name}`" not in pages] == []


def test_every_tool_for_models_is_listed() -> None:
    page = (DOCS / "mcp.md").read_text()
    assert [tool.name for tool in TOOLS if f"| `{tool.name}` | `" not in page] == []


def test_every_type_of_change_for_subscribers_is_listed() -> None:
    page = (DOCS / "subscriptions.md").read_text()
    assert [name for name in EVENT_TYPES if f"`{name}`" not in page] == []


def test_every_line_of_an_import_file_is_listed() -> None:
    """With its fields; those of an episode are on its own page."""
    page = (DOCS / "import-format.md").read_text() + (DOCS / "episodes.md").read_text()
    fields = [field for line in get_args(OwnLine) for field in line.__struct_encode_fields__]
    assert [name for name in (*OPERATIONS, *fields) if f"`{name}`" not in page] == []


def test_every_dependency_earns_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    page = (DOCS / "dependencies.md").read_text()
    for requirement in wanted:
        assert re.split(r"[<>=\[;]", requirement)[0].strip() in page, requirement


def test_every_metric_is_listed() -> None:
    files = ("api/http/metrics.py", "api/routes/node/metrics.py")
    code = "\n".join((ROOT / file).read_text() for file in files)
    names = re.findall(r'"((?:engramlog|stigmem|process)_[a-z_]+)"', code)
    page = (DOCS / "monitoring.md").read_text()
    assert [name for name in names if f"`{name}`" not in page] == []


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
    commands = [name for of_module in COMMANDS.values() for name in of_module]
    assert [name for name in commands if f"engramlog {name}" not in EVERYTHING] == []
