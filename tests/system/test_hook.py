"""``engramlog hook recall`` and ``engramlog profile`` as an agent's host and a user run them."""

import json
from pathlib import Path

import pytest

from engramlog.api.cli.questions.hook import HEADING, injected, prompt_of
from tests.worlds.processes import engramlog, fact

NAMES = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "gable", "haven", "inlet", "kelp", "lake",
)  # fmt: skip
TEXTS = [f"thanks for the {name} note" for name in NAMES]
TARGET = "The migration runs every night"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hook") / "memory"
    lines = [fact(n, value={"type": "text", "v": text}) for n, text in enumerate([*TEXTS, TARGET])]
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    done = engramlog("import", "-", "--data", folder, "--quiet", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def hook(data: Path, prompt: object, **env: str) -> tuple[list[str], str]:
    stdin = json.dumps({"prompt": prompt}).encode()
    done = engramlog("hook", "recall", "--data", data, stdin=stdin, env=env)
    assert done.returncode == 0
    return done.stdout.splitlines(), done.stderr


def test_a_turn_gets_the_memories_that_it_calls_for(data: Path) -> None:
    lines, errors = hook(data, "thanks, when does the migration run?")
    assert lines[0] == HEADING
    # Ss may rank others next to it: short texts agree by chance.
    assert any(line.startswith(f"- {TARGET} (20") for line in lines[1:3])
    assert errors == ""


def test_a_turn_that_tells_nothing_gets_nothing(data: Path) -> None:
    assert hook(data, "thanks") == ([], "")


def test_the_environment_sets_the_limits(data: Path) -> None:
    turn = "amber birch cedar delta ember fjord gable"
    assert len(hook(data, turn)[0]) == 1 + 5
    assert len(hook(data, turn, ABMIND_HOOK_RECALL_LIMIT="2")[0]) == 1 + 2
    lines, _ = hook(data, turn, ABMIND_HOOK_RECALL_MAX_CHARS="160")
    assert 1 < len(lines) < 6
    assert sum(len(line) + 1 for line in lines) <= 160
    lines, errors = hook(data, turn, ABMIND_HOOK_RECALL_LIMIT="many")
    assert len(lines) == 1 + 5
    assert "ABMIND_HOOK_RECALL_LIMIT is 'many'" in errors
    assert hook(data, turn, ABMIND_HOOKS_DISABLED="true") == ([], "")


@pytest.mark.parametrize("stdin", [b"", b"no json", b"[]", b'{"prompt": 3}'])
def test_no_message_of_the_host_stops_a_turn(data: Path, stdin: bytes) -> None:
    done = engramlog("hook", "recall", "--data", data, stdin=stdin)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("engramlog: hook: ")


def test_a_turn_continues_without_a_memory(tmp_path: Path) -> None:
    lines, errors = hook(tmp_path / "none", "hello")
    assert lines == []
    assert "engramlog: hook: " in errors


def test_a_prompt_is_the_text_without_its_margins() -> None:
    assert prompt_of('{"prompt": "  hello ", "session": 3}') == "hello"


def memory(text: str) -> dict[str, object]:
    value = {"type": "text", "v": text}
    return {"id": text, "value": value, "timestamp": "2026-01-02T00:00:00Z"}


def answered(*memories: dict[str, object]) -> dict[str, object]:
    return {"content": [{"fact": each} for each in memories], "results": list(memories)}


def test_memories_are_one_line_each_and_cut_at_the_limit() -> None:
    answer = answered(memory("one\nline"), memory("x" * 50))
    room = len(HEADING) + 1
    whole = injected(answer, 1000)
    assert whole == f"{HEADING}\n- one line (2026-01-02)\n- {'x' * 50} (2026-01-02)\n"
    assert injected(answer, room + 24) == f"{HEADING}\n- one line (2026-01-02)\n"
    assert injected(answer, room + 23) == f"{HEADING}\n- one line (2026-01-0…\n"
    assert injected(answer, room) == ""
    assert injected(answered(), 1000) == ""


def test_a_profile_with_abminds_numbers_is_shown_and_installed(data: Path, tmp_path: Path) -> None:
    shown = engramlog(
        "profile", "show", "abmind-head", "--abmind-environment", "--data", data,
        env={"RECALL_SE_WAIT_MS": "400", "RECALL_SS_SCAN_ROWS": "no"},
    )  # fmt: skip
    assert shown.returncode == 0
    assert "RECALL_SS_SCAN_ROWS is 'no'" in shown.stderr
    document = json.loads(shown.stdout)
    stages = {stage["name"]: stage for stage in document["stages"]}
    assert stages["semantic"]["deadline_ms"] == 400
    assert stages["simhash"]["parameters"]["rows"] == 5000
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(document))
    installed = engramlog("profile", "install", "mine", file, "--data", data)
    assert (installed.returncode, installed.stdout) == (0, "profile mine installed\n")
    listed = engramlog("profile", "list", "--data", data).stdout
    line = next(line for line in listed.splitlines() if line.startswith("mine"))
    assert "installed" in line
    file.write_text("[]")
    refused = engramlog("profile", "install", "mine", file, "--data", data)
    assert (refused.returncode, "JSON object" in refused.stderr) == (1, True)
    file.write_text(json.dumps({**document, "ambient": {"ceiling": 2}}))
    refused = engramlog("profile", "install", "mine", file, "--data", data)
    assert (refused.returncode, "ceiling" in refused.stderr) == (1, True)
