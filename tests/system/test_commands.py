"""Every command once against real data: help, answers, exit codes, and one-line errors."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.cli.main import build_parser, main
from engramlog.api.node.node import Node
from tests.worlds.processes import engramlog, environment, fact, serving

COMMANDS = (
    (),
    ("serve",),
    ("import",),
    ("export",),
    ("recall",),
    ("facts",),
    ("replay",),
    ("replay", "status"),
    ("replay", "rebuild"),
    ("replay", "verify"),
    ("replay", "heads"),
    ("decay",),
    ("decay", "sweep"),
    ("decay", "policies"),
    ("key",),
    ("key", "create"),
    ("key", "list"),
    ("key", "revoke"),
    ("identity",),
    ("identity", "show"),
    ("identity", "backup"),
    ("identity", "rotate"),
    ("identity", "accept-copy"),
    ("identity", "new"),
    ("demo",),
    ("doctor",),
    ("mcp",),
    ("names",),
    ("names", "alias"),
    ("names", "unalias"),
    ("names", "list"),
    ("names", "resolve"),
)
NUMBERS = 12
UNKNOWN_UID = 61_184
"""The first of those that systemd gives for a while."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a few facts in it."""
    folder = tmp_path / "memory"
    texts = {"type": "text", "v": "Ann leads the Atlas project and keeps the ledger."}
    items = [fact(n) for n in range(NUMBERS)]
    items.append(fact(99, value=texts, relation="memory:summary", entity="user:ann"))
    stdin = b"\n".join(json.dumps(item).encode() for item in items)
    done = engramlog("import", "-", "--data", folder, "--quiet", stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_explains_with_examples(command: tuple[str, ...]) -> None:
    done = engramlog(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: engramlog")
    assert ("examples:" if command else "first steps:") in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ("recall",),
        ("serve", "--port", "x"),
        ("nonsense",),
        ("key", "create"),
        ("import", "--skip"),
        ("show", ""),
        ("history", " "),
        ("facts", "--entity", ""),
        ("facts", "--as-of", ""),
        ("facts", "--data", ""),
        ("audit", "state", "--source", ""),
        ("recall", "who?", "--topic", "work"),
        ("recall", "who?", "--max-classification", "0"),
        ("recall", "who?", "--include-expired"),
        ("import", "x", "--skip", "-1"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(args: tuple[str, ...]) -> None:
    done = engramlog(*args)
    assert done.returncode == 2
    said = "engramlog: no command" if args == ("nonsense",) else "usage: engramlog"
    assert done.stderr.startswith(said)


def test_every_argument_says_what_it_is() -> None:
    def silent(parser: argparse.ArgumentParser) -> Iterator[str]:
        for each in parser._actions:  # pyright: ignore[reportPrivateUsage]  # no other list
            if isinstance(each.choices, dict):
                for below in each.choices.values():
                    yield from silent(below)
            elif not each.help:
                yield f"{parser.prog} {each.option_strings or each.dest}"

    assert not [*silent(build_parser())]


@pytest.mark.parametrize("group", [(), ("key",), ("replay",), ("decay",), ("identity",)])
def test_a_group_alone_prints_its_help(group: tuple[str, ...]) -> None:
    done = engramlog(*group)
    assert done.returncode == 2
    assert done.stdout.startswith("usage: engramlog")


def test_recall_finds_and_prints(data: Path) -> None:
    done = engramlog("recall", "who leads atlas?", "--data", data)
    assert done.returncode == 0, done.stderr
    assert "Ann leads the Atlas project" in done.stdout.splitlines()[1]
    as_json = engramlog("recall", "who leads atlas?", "--data", data, "--json", "--budget", "500")
    assert json.loads(as_json.stdout)["token_budget"] == 500
    past = engramlog("recall", "who leads atlas?", "--data", data, "--as-of", "position:3")
    assert "Ann leads" not in past.stdout


def test_facts_lists_filters_and_looks_back(data: Path) -> None:
    everything = engramlog("facts", "--data", data)
    assert f"{NUMBERS + 1} of {NUMBERS + 1} facts" in everything.stdout
    one = engramlog("facts", "--data", data, "--entity", "user:Ann", "--json")
    assert json.loads(one.stdout)["total"] == 1
    past = engramlog("facts", "--data", data, "--as-of", "position:4", "--json")
    assert json.loads(past.stdout)["total"] == 3
    few = engramlog("facts", "--data", data, "--limit", "2")
    assert f"2 of {NUMBERS + 1} facts" in few.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("facts", "--as-of", "yesterday"), "2026-01-31T12:00:00Z (or position:N)"),
        (("facts", "--scope", "world"), "scope must be one of"),
        (("recall", "x", "--as-of", "2999-01-01T00:00:00Z"), "as_of is in the future"),
        (("key", "revoke", "no-such-key"), "API key not found"),
        (("key", "create", "--entity-uri", "a", "--permission", "rule"), "unknown permissions"),
        (("replay", "verify", "--against", "no-heads.json"), "cannot read signed heads"),
        (("facts", "--url", "http://127.0.0.1:1"), "give either --data or --url"),
        (("facts", "--limit", "0"), "limit: must be at least 1"),
        (("recall", "x", "--user-id", " "), "user: must not be empty"),
        (("remember", "x", "--user", ""), "user: must not be empty"),
        (("assert", "user:a", "memory:b", "x", "--source", ""), "source: must not be empty"),
        (("assert", "user:a", "memory:b", "--ref", ""), "value.v: entity URI must not be empty"),
        (("assert", "user:a", "memory:b", "x", "--ref", "y"), "give either a VALUE or --ref"),
        (("retract", ""), "a name or id is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_failures_are_one_line_on_stderr(data: Path, args: tuple[str, ...], message: str) -> None:
    done = engramlog(*args, "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("engramlog: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_without_the_characters_gets_their_numbers(tmp_path: Path) -> None:
    data, text = tmp_path / "memory", "Zoë ate 寿司 🍣"
    assert engramlog("remember", text, "--data", data).returncode == 0
    command = [sys.executable, "-m", "engramlog", "facts", "--json", "--data", str(data)]
    env = environment({"PYTHONIOENCODING": "ascii"})
    done = subprocess.run(command, capture_output=True, env=env, check=True)
    assert rb"Zo\u00eb ate \u5bff\u53f8 \ud83c\udf63" in done.stdout
    assert json.loads(done.stdout)["facts"][0]["value"]["v"] == text


def test_a_question_does_not_create_a_missing_directory(tmp_path: Path) -> None:
    for args in (("facts",), ("replay", "status"), ("replay", "verify"), ("identity", "show")):
        done = engramlog(*args, "--data", tmp_path / "none")
        assert done.returncode == 1
        assert "does not exist" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("key list", "no keys"),
        ("capability list", "no capabilities"),
        ("hold list", "no legal holds"),
        ("tombstone list", "no tombstones"),
        ("erase status", "no erasures"),
    ],
)
def test_an_empty_list_says_so(tmp_path: Path, command: str, said: str) -> None:
    Node.open(tmp_path / "new").close()
    done = engramlog(*command.split(), "--data", tmp_path / "new")
    assert (done.returncode, done.stdout) == (0, f"{said}\n")


def test_a_missing_file_is_named_in_one_line(data: Path, tmp_path: Path) -> None:
    missing = tmp_path / "no.json"
    done = engramlog("consolidation", "rules", "--set", missing, "--data", data)
    assert (done.returncode, done.stderr) == (
        1,
        f"engramlog: {missing}: No such file or directory\n",
    )


def test_a_folder_with_other_files_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for args in (("facts",), ("recall", "x"), ("replay", "verify"), ("identity", "rotate")):
        done = engramlog(*args, "--data", tmp_path)
        assert done.returncode == 1, args
        assert "is not a data directory" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_root_is_told_what_its_files_do_in_the_directory_of_another_user(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["facts", "--data", str(data)]) == 0
    assert "belongs to" not in capsys.readouterr().err
    if os.geteuid() == 0:
        os.chown(data / "lock", UNKNOWN_UID, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main(["facts", "--data", str(data)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{data} belongs to " in line
    assert "start that node first, or 'chown -R " in line


def test_an_unreachable_node_is_named() -> None:
    done = engramlog("facts", "--url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "cannot reach http://127.0.0.1:1" in done.stderr


def test_a_bad_setting_is_named_with_its_origin(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("prot = 1\n")
    unknown = engramlog("serve", "--config", config)
    assert (unknown.returncode, unknown.stderr) == (
        1,
        f"engramlog: {config}: unknown setting 'prot'; did you mean port?\n",
    )
    wrong = engramlog("serve", env={"STIGMEM_CURSOR_TTL_S": "soon"})
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("engramlog: STIGMEM_CURSOR_TTL_S: ")


@pytest.mark.parametrize("running", [False, True], ids=["alone", "through the running node"])
def test_every_operators_command_works_alone_and_through_the_node(
    data: Path, tmp_path: Path, running: bool
) -> None:
    if running:
        with serving(data):
            operate(data, tmp_path, running)
    else:
        operate(data, tmp_path, running)


def operate(data: Path, tmp_path: Path, running: bool) -> None:
    status = json.loads(engramlog("replay", "status", "--data", data, "--json").stdout)
    assert status["degraded"] is None
    assert "state      ready" in engramlog("replay", "status", "--data", data).stdout
    rebuilt = engramlog("replay", "rebuild", "--data", data)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "equal to the views in use" in rebuilt.stdout
    heads = tmp_path / "heads.json"
    assert engramlog("replay", "heads", "--data", data, "--out", heads).returncode == 0
    verified = engramlog("replay", "verify", "--data", data, "--against", heads)
    assert verified.returncode == 0, verified.stderr
    assert "agrees with the heads" in verified.stdout

    created = engramlog("key", "create", "--data", data, "--entity-uri", "agent:bo")
    raw_key = created.stdout.strip()
    assert len(raw_key) >= 32
    listed = json.loads(engramlog("key", "list", "--data", data, "--json").stdout)
    (key,) = [key for key in listed if key["entity_uri"] == "agent:bo"]
    assert raw_key not in json.dumps(listed)
    assert "agent:bo" in engramlog("key", "list", "--data", data).stdout
    assert engramlog("key", "revoke", key["id"], "--data", data).returncode == 0
    assert "agent:bo" not in engramlog("key", "list", "--data", data).stdout

    assert "no decay policies" in engramlog("decay", "policies", "--data", data).stdout
    would = engramlog("decay", "sweep", "--data", data, "--dry-run", "--ttl-seconds", "0.000001")
    assert would.returncode == 0, would.stderr
    assert would.stdout.startswith("would touch ")

    identity = engramlog("identity", "show", "--data", data)
    assert status["node_id"] in identity.stdout
    backup = tmp_path / "backup"
    assert engramlog("identity", "backup", backup, "--data", data).returncode == 0
    assert (backup / "node.key").stat().st_mode & 0o077 == 0
    rotated = engramlog("identity", "rotate", "--data", data)
    if running:
        assert rotated.returncode == 1
        assert "stop the node to rotate its key" in rotated.stderr
    else:
        assert rotated.returncode == 0, rotated.stderr
        assert '"rotations": 1' in engramlog("identity", "show", "--data", data, "--json").stdout


def test_heads_kept_elsewhere_reveal_a_cut_log(data: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(data, older)
    stdin = json.dumps(fact(1000)).encode()
    assert engramlog("import", "-", "--data", data, stdin=stdin).returncode == 0
    heads = tmp_path / "heads.json"
    assert engramlog("replay", "heads", "--data", data, "--out", heads).returncode == 0
    done = engramlog("replay", "verify", "--data", older, "--against", heads)
    assert done.returncode == 1
    assert "log was cut back" in done.stderr


def test_a_copied_directory_is_refused_until_it_is_accepted(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    refused = engramlog("facts", "--data", copy)
    assert refused.returncode == 1
    assert "engramlog identity accept-copy" in refused.stderr
    accepted = engramlog("identity", "accept-copy", "--data", copy)
    assert accepted.returncode == 0, accepted.stderr
    assert "epoch 2" in accepted.stdout
    assert engramlog("facts", "--data", copy).returncode == 0


def test_a_log_is_not_copied_into_another_node(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    refused = engramlog("copy-log", data, target)
    assert refused.returncode == 1
    assert f"engramlog identity backup {target / 'identity'}" in refused.stderr
    assert not target.exists()


def test_indexing_without_a_model_is_refused_in_one_line(data: Path) -> None:
    refused = engramlog("embeddings", "reindex", "--data", data)
    assert refused.returncode == 1
    assert "name a provider" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_key_reaches_a_node_by_url(data: Path) -> None:
    raw_key = engramlog("key", "create", "--data", data, "--entity-uri", "agent:bo").stdout.strip()
    with serving(data) as node:
        env = {"MY_KEY": raw_key}
        done = engramlog("facts", "--url", node.url, "--key-env", "MY_KEY", env=env)
        assert done.returncode == 0, done.stderr
        unset = engramlog("facts", "--url", node.url, "--key-env", "MY_KEY")
        assert "environment variable MY_KEY is not set" in unset.stderr
        without = engramlog("facts", "--url", node.url)
        assert (without.returncode, "--key-env" in without.stderr) == (1, True)
        replica = engramlog(
            "serve", "--port", "0", "--data", data.parent / "copy", "--replica-of", node.url
        )
        assert "Authorization header required" in replica.stderr
        assert " --key-env" not in replica.stderr
