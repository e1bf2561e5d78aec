"""``import engramlog`` shows what ``__all__`` names, no more and no less, and loads little."""

import subprocess
import sys
from types import ModuleType

import pytest

import engramlog
from tests.worlds.processes import environment


@pytest.mark.parametrize("name", engramlog.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert not isinstance(getattr(engramlog, name), ModuleType)


def test_only_public_names_are_shown() -> None:
    assert dir(engramlog) == sorted(engramlog.__all__)
    own = {
        name
        for name, value in vars(engramlog).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("engramlog")
    }
    assert own <= set(engramlog.__all__)


def test_a_name_that_is_none_of_these_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Writer'"):
        _ = engramlog.Writer  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def test_the_door_alone_loads_no_room() -> None:
    code = "import engramlog, sys; print([m for m in sys.modules if m.startswith('engramlog.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "[]"


def test_windows_learns_where_it_runs() -> None:
    code = "import sys; sys.platform = 'win32'; import engramlog"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment()
    )
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: engramlog runs on Linux and macOS; on Windows, use it in WSL"
