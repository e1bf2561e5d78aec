"""The verbs of the command line: single facts and queries."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.worlds.processes import engramlog, serving


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verbs") / "memory"


def said(*args: str | Path) -> str:
    done = engramlog(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_life_of_one_memory(data: Path) -> None:
    with serving(data, "--no-auth"):  # commands go through the node that runs
        kept = said("remember", "Ann moved to Graz", "--user", "ann", "--data", data)
        assert kept.startswith("user:ann remembers: ")
        again = said("remember", "Ann moved to Graz", "--user", "ann", "--data", data)
        assert "(already known)" in again
        made = json.loads(said("assert", "user:ann", "memory:age", "42", "--data", data, "--json"))
        assert made["value"]["v"] == 42
        role = said("assert", "user:ann", "memory:role", "CEO", "--source", "agent:hr",
                    "--valid-from", "2026-11-22", "--data", data)  # fmt: skip
        assert role.startswith("user:ann memory:role CEO: ")
        fact_id = role.split()[-1]
        said("assert", "user:ann", "memory:works-at", "--ref", "org:acme", "--data", data)
        found = json.loads(said("recall", "where does Ann live?", "--data", data, "--json"))
        assert any(each["fact"]["value"]["v"] == "Ann moved to Graz" for each in found["facts"])
        shown = said("show", "user:ann", "--data", data)
        assert "memory:role" in shown
        assert "2026-11-22" in shown
        assert "org:acme" in shown
        gone = said("retract", fact_id, "--reason", "left", "--data", data)
        assert gone.startswith("user:ann memory:role CEO: retracted")
        assert "memory:role" not in said("show", "user:ann", "--data", data)
        told = said("history", "user:ann", "--data", data).splitlines()
        ended = [line for line in told if "fact_retracted" in line]
        assert any("memory:role" in line and "CEO" in line and "left" in line for line in ended)
        audited = said("audit", "entity", "user:ann", "--data", data)
        assert "memory:age" in audited
        assert said("ui", "--no-browser", "--data", data).strip().endswith("/ui")


def test_a_history_has_changes_and_an_audit_recalls_too(data: Path) -> None:
    said("assert", "user:dana", "memory:plays", "the violin", "--data", data)
    assert "violin" in said("recall", "who plays the violin?", "--data", data)
    assert "recall_answered" in said("audit", "entity", "user:dana", "--data", data)
    (only,) = said("history", "user:dana", "--data", data).splitlines()[1:]
    assert "fact_asserted" in only


def test_two_values_of_one_source_warn_and_usage_is_refused(data: Path) -> None:
    said("assert", "user:bo", "memory:city", "Graz", "--source", "agent:a", "--data", data)
    done = engramlog("assert", "user:bo", "memory:city", "Linz", "--source", "agent:a",
                     "--data", data)  # fmt: skip
    assert "'Graz'" in done.stderr
    assert "warning" in done.stderr
    listed = said("facts", "--entity", "user:bo", "--json", "--data", data)
    assert [fact["value"]["v"] for fact in json.loads(listed)["facts"]] == ["Linz"]
    without = engramlog("assert", "user:bo", "memory:x", "--data", data)
    assert "give either a VALUE" in without.stderr
    nothing = engramlog("show", "user:nothing-at-all", "--data", data)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "user:ann" in engramlog("show", "ann", "--data", data).stderr


def test_a_terminal_obeys_no_stored_text(data: Path) -> None:
    command = "\x1b[31m"
    role = said("assert", "user:cy", "memory:role\u202e", f"{command}cook", "--data", data)
    said("retract", role.split()[-1], "--reason", f"{command}left", "--data", data)
    said("recall", f"who is the {command}cook?", "--data", data)
    for asked in (("history", "user:cy"), ("audit", "entity", "user:cy"), ("receipts",),
                  ("recall", "replay", "latest"), ("facts", "--include-retracted"),
                  ("audit", "sql", "SELECT value FROM facts")):  # fmt: skip
        shown = said(*asked, "--data", data)
        assert "[31m" in shown, asked
        assert not {"\x1b", "\u202e"} & {*shown, *role}, asked


@pytest.mark.parametrize(
    ("given", "meant"), [("remeber", "remember"), ("serv", "serve"), ("histroy", "history")]
)
def test_a_misspelt_command_gets_a_suggestion(given: str, meant: str) -> None:
    done = engramlog(given)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"did you mean '{meant}'?" in done.stderr
    assert "--help" in engramlog("zzzzzz").stderr


def test_bash_completes_commands_and_options() -> None:
    script = said("completion", "bash")
    ask = 'COMP_WORDS=(engramlog {}); COMP_CWORD={}; _engramlog; echo "${{COMPREPLY[@]}}"'
    for words, number, wanted in (("rem", 1, "remember"), ("recall --bud", 2, "--budget"),
                                  ("key cr", 2, "create")):  # fmt: skip
        done = subprocess.run(
            ["bash", "-c", script + ask.format(words, number)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == wanted
    assert "-a remember" in said("completion", "fish")


@pytest.mark.parametrize(
    ("more", "hint"), [(("moved", "to Graz"), True), (("--usr", "ann"), False)]
)
def test_words_without_quotes_are_called_so(data: Path, more: tuple[str, ...], hint: bool) -> None:
    done = engramlog("remember", "--data", data, "Ann", *more)
    assert done.returncode == 2
    assert f"unrecognized arguments: {' '.join(more)}" in done.stderr
    assert ("(a text of several words needs quotes)" in done.stderr) is hint
