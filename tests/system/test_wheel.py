"""The wheel: built like a release, installed in a new environment, and run.

The environment contains only the wheel and a user's own packages. Its locked dependencies are not
copied: a ``.pth`` file adds their folder to the end of the path. Python does not read that folder's
own ``.pth`` files this way, so this checkout's editable install stays out of reach, and 700 MB need
no copy.
"""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.worlds.source_tree import REPOSITORY, ROOMS

SOURCES = ("pyproject.toml", "README.md", "engramlog", "fixtures/spaceflight", *ROOMS)
STRANGERS = ("api", "projections", "replay")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
SECONDS_MAX = 120.0
DATA = {
    "api/web": "*.html",
    "api/web/dist": "*.*",
    "api/spaceflight": "*.jsonl",
    "projections/recall/profiles": "*.json",
    "eventlog": "*.md",
}


def run(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=bare(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def bare() -> dict[str, str]:
    """The environment without a path to the checkout, and without settings."""
    hidden = ("PYTHON", "STIGMEM_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "STIGMEM_EMBED_ENABLED": "false", "PYTHONUNBUFFERED": "1"}


class Environment:
    """A new environment with a user's own packages and the wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        self.command = folder / "venv" / "bin" / "engramlog"
        (self.packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        locked = sysconfig.get_path("purelib")
        (self.packages / "locked.pth").write_text(f"{locked}\n")
        for name in STRANGERS:
            (self.packages / name).mkdir()
            (self.packages / name / "__init__.py").write_text(f"MINE = {name!r}\n")
        installed = run(
            [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet",
             "--disable-pip-version-check", "--no-index", "--no-deps", wheel],
            folder,
        )  # fmt: skip
        assert installed.returncode == 0, installed.stderr

    def python_says(self, text: str) -> subprocess.CompletedProcess[str]:
        return run([self.python, "-c", text], self.folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    for name in SOURCES:
        found, copy = REPOSITORY / name, sources / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(found, copy, symlinks=True, ignore=ignored)
        else:
            shutil.copy(found, copy)
    built = run([sys.executable, "-c", BUILD, folder], sources)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("installed"), wheel)


def test_everything_is_under_one_name_with_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"engramlog"}
    expected = [path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py")]
    expected += [
        path
        for folder, pattern in DATA.items()
        for path in (REPOSITORY / folder).glob(pattern)
        if path.is_file() and not path.name.startswith(".")
    ]
    missing = {f"engramlog/{path.relative_to(REPOSITORY)}" for path in expected} - names
    assert missing == set()


def test_it_works_next_to_a_users_own_packages(installed: Environment) -> None:
    for name in STRANGERS:
        said = installed.python_says(f"import engramlog, {name}; print({name}.MINE)")
        assert said.stdout == f"{name}\n", said.stderr
    version = run([installed.command, "--version"], installed.folder)
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("engramlog ")


def test_it_installs_no_rooms_at_the_top(installed: Environment) -> None:
    for name in STRANGERS:
        (installed.packages / name).rename(installed.folder / name)
    try:
        for name in ROOMS:
            said = run([installed.python, "-P", "-c", f"import {name}"], installed.packages)
            assert f"No module named '{name}'" in said.stderr
    finally:
        for name in STRANGERS:
            (installed.folder / name).rename(installed.packages / name)


def test_it_serves_and_stops(installed: Environment) -> None:
    process = subprocess.Popen(
        [installed.command, "serve", "--data", "node", "--port", "0"],
        cwd=installed.folder,
        env=bare(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout as stdout:
            ready = next(line for line in stdout if line.startswith("engramlog serving "))
            url = ready.split()[2]
            for path in ("/healthz", "/ui"):  # the page is one of the files of data
                with urlopen(url + path, timeout=SECONDS_MAX) as answer:
                    assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait(SECONDS_MAX)


def test_it_brings_the_history_of_the_demo(installed: Environment) -> None:
    done = run([installed.command, "demo", "--once", "--port", "0"], installed.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "body/saturn space:moon-count 274" in done.stdout
