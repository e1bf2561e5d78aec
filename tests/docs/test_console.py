"""The pages' examples work as shown."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from engramlog.eventlog.directory import remember_place
from tests.api.console.browser import REQUIRED
from tests.worlds.documented_console import ROOT, Step, blocks_of, keeps, run, steps_of
from tests.worlds.processes import serving

PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if steps_of(page) and page.name != "README.md"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with the fixtures in reach, as in a checkout."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    return tmp_path


IMPORT = "engramlog import fixtures/spaceflight/events.jsonl --data demo --clock-from-file --quiet"
"""How many of the pages begin."""


class Imported:
    """A folder in which ``IMPORT`` was run, and what it printed."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "demo"
        (folder / "fixtures").symlink_to(ROOT / "fixtures")
        self._printed = run(Step(IMPORT, ""), folder, {})

    def again(self, folder: Path) -> str:
        """As if it had been run in ``folder``."""
        shutil.copytree(self._data, folder / "demo")
        remember_place(folder / "demo")
        return self._printed


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return Imported(tmp_path_factory.mktemp("imported"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(
    page: Path, folder: Path, imported: Imported
) -> None:
    for step in steps_of(page):
        repeated = step.command == IMPORT and not (folder / "demo").exists()
        printed = imported.again(folder) if repeated else run(step, folder, {})
        assert keeps(step.promised, printed), f"{step.command}\n{printed}"


def test_the_first_minute_of_the_readme_goes_as_printed(folder: Path) -> None:
    # As a reader starts it: with embeddings, whose model is its own event.
    as_shipped = {"STIGMEM_EMBED_ENABLED": "true", "STIGMEM_SET_VALUED_DEFAULTS": "true"}
    with serving(folder / "memory", "--no-auth", env=as_shipped) as node:
        for step in steps_of(ROOT / "README.md"):
            printed = run(step, folder, {"NODE": node.url})
            assert keeps(step.promised, printed), f"{step.command}\n{printed}"


def test_the_python_of_the_readme_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    parts = blocks_of(ROOT / "README.md")
    assert len(parts) == 2
    with serving(folder / "memory", "--no-auth") as node:
        for code, _ in parts:
            names: dict[str, Any] = {"print": lambda *_: None}
            exec(code.replace("http://127.0.0.1:8765", node.url), names)
            if "memory" in names:
                names["memory"].close()


ADAPTERS = blocks_of(ROOT / "docs" / "adapters.md")


@pytest.mark.parametrize(("code", "promised"), ADAPTERS, ids=lambda _: "")
def test_an_adapter_works_as_its_page_shows(
    code: str,
    promised: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")
    try:
        exec(code, {})
    except ImportError as fault:
        if REQUIRED or "pip install engramlog[" not in str(fault):
            raise
        pytest.skip(str(fault))
    assert keeps(promised, capsys.readouterr().out)


PYTHON_PAGES = ("python.md", "episodes.md")


@pytest.mark.parametrize("name", PYTHON_PAGES)
def test_the_python_of_a_page_prints_the_shown_output(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page are one program, in an empty folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv(
        "STIGMEM_EMBED_PROVIDER", "minilm"
    )  # independent of other models on this machine
    names: dict[str, object] = {}
    for code, promised in blocks_of(ROOT / "docs" / name):
        exec(code, names)
        assert keeps(promised, printed := capsys.readouterr().out), f"{code}\n{printed}"
