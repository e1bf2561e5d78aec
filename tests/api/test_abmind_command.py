"""``abmind`` as its users type it."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from engramlog import Memory, Ref
from engramlog.api.cli.abmind import main
from engramlog.api.cli.questions.hook import HEADING
from tests.worlds.documented_console import ROOT


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")
    monkeypatch.setenv("STIGMEM_DATA_DIR", str(tmp_path / "memory"))


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(line: str, code: int = 0, stdin: str = "") -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        assert main(shlex.split(line)) == code, capsys.readouterr()
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    return run


def test_the_commands_of_the_page_work_in_their_order(told: Any) -> None:
    (block,) = re.findall(r"```sh\n(.*?abmind .*?)```", (ROOT / "docs/abmind.md").read_text(), re.S)
    answers: list[str] = []
    for line in block.splitlines():
        before, _, command = line.rpartition("abmind ")
        piped = re.match(r"echo '(.*)' \| $", before)
        answers.append(told(command, stdin=piped[1] if piped else "")[0])
    assert json.loads(answers[0])["stored"] is True
    for found in answers[1:3]:
        assert [hit["content"] for hit in json.loads(found)] == ["Ann leads the Atlas project"]
    assert "- Ann leads the Atlas project (" in answers[3]


def test_the_entity_of_a_value_is_part_of_the_answer(tmp_path: Path, told: Any) -> None:
    with Memory(tmp_path / "memory") as memory:
        memory.assert_fact("user:alice", "memory:role", "CEO", user="alice")
        memory.assert_fact("user:alice", "works-at", Ref("user:bob"), user="alice")
        memory.assert_fact("user:alice", "memory:age", 42, user="alice")
    hits = json.loads(told("recall --translated CEO,42 --user-id alice --stages Sf")[0])
    contents = {hit["content"] for hit in hits}
    assert contents == {"alice role: CEO", "alice age: 42"}
    edges = json.loads(told("recall --translated alice --user-id alice --stages Ss")[0])
    assert [(hit["source"], hit["content"]) for hit in edges if hit["source"][:2] == "S8"] == [
        ("S8:entity-graph", "alice —[works-at]→ bob")
    ]
    lines = told("hook recall", stdin='{"prompt": "who is CEO?"}')[0].splitlines()
    assert lines[0] == HEADING
    assert any(line.startswith("- alice role: CEO (") for line in lines)


def test_recall_finds_only_the_users_memories(
    tmp_path: Path, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(tmp_path / "memory") as memory:
        for name in ("ann", "bo"):
            memory.remember(f"{name} planned the release", user=name)
    for ask in ("--user-id ann", "--chat-id user:ann"):
        (hit,) = json.loads(told(f"recall --keywords release {ask}")[0])
        assert hit["content"] == "ann planned the release"
    monkeypatch.setenv("ABMIND_USER_ID", "bo")
    (hit,) = json.loads(told("recall --keywords release")[0])
    assert hit["content"] == "bo planned the release"
    lines = told("hook recall", stdin='{"prompt": "the release"}')[0].splitlines()
    assert [line.partition(" (")[0] for line in lines[1:]] == ["- bo planned the release"]


@pytest.mark.parametrize(
    ("line", "missing"),
    [("recall --user-id a", "--translated"), ("recall --keywords x", "--user-id")],
)
def test_usage_and_exit_code_1_where_something_is_missing(
    told: Any, line: str, missing: str
) -> None:
    out, errors = told(line, code=1)
    assert (out, errors[:6]) == ("", "usage:")
    assert f"abmind: give {missing}" in errors
