"""Modules that a command loads before it runs."""

import argparse
import json
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from engramlog.api.cli import main as cli
from engramlog.api.cli.main import COMMANDS
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.node.node import Node
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.replay.rebuild import ProjectorHalted
from tests.worlds.processes import engramlog, environment

HEAVY = {"aiohttp", "duckdb", "numpy"}


def command_that_raises(fault: BaseException) -> argparse.ArgumentParser:
    def run(_: argparse.Namespace) -> int:
        raise fault

    made = argparse.ArgumentParser()
    made.set_defaults(run=run, traceback=False)
    return made


@pytest.mark.parametrize("module", COMMANDS)
def test_the_table_names_the_commands_that_a_module_adds(module: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(f"engramlog.api.cli.{module}").register(Subcommands(parser))
    (made,) = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
    named = {each.dest: each.help for each in made._choices_actions}  # pyright: ignore[reportPrivateUsage]
    assert named == COMMANDS[module]


def test_a_command_that_a_node_answers_loads_none_itself() -> None:
    code = (
        "import sys, json\nfrom http.server import BaseHTTPRequestHandler, HTTPServer\n"
        "from threading import Thread\nfrom engramlog.api.cli.main import main\n"
        "class Node(BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        body = json.dumps({'facts': [], 'cursor': None, 'total': 0}).encode()\n"
        "        self.send_response(200)\n"
        "        self.send_header('Content-Length', str(len(body)))\n"
        "        self.end_headers()\n"
        "        self.wfile.write(body)\n"
        "    def log_message(self, *args): pass\n"
        "server = HTTPServer(('127.0.0.1', 0), Node)\n"
        "Thread(target=server.serve_forever, daemon=True).start()\n"
        "code = main(['facts', '--url', f'http://127.0.0.1:{server.server_port}'])\n"
        f"print(code, sorted({HEAVY!r} & {{*sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


@pytest.mark.parametrize(
    ("command", "new", "started"),
    [
        (["recall", "who?"], False, ["before"]),
        (["remember", "tea"], False, ["before"]),
        (["remember", "tea"], True, ["before"]),
        (["facts"], False, []),
    ],
)
def test_the_model_loads_beside_the_modules_that_open_a_directory(
    command: list[str], new: bool, started: list[str], tmp_path: Path
) -> None:
    if not new:
        Node.open(tmp_path, embedding=EmbeddingSettings(provider="minilm")).close()
    code = (
        "import subprocess, sys\nfrom engramlog.api.cli.main import main\n"
        "started = []\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, *given, **named):\n"
        "        started.append('after' if 'aiohttp' in sys.modules else 'before')\n"
        "        super().__init__(*given, **named)\n"
        "subprocess.Popen = Popen\n"
        f"code = main({[*command, '--data', str(tmp_path)]!r})\n"
        "print(code, started)"
    )
    env = environment({"STIGMEM_EMBED_ENABLED": "true"})
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.splitlines()[-1] == f"0 {started}", done.stderr


def test_ctrl_c_while_modules_load_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(_: object) -> argparse.ArgumentParser:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_parser", pressed)
    assert cli.main(["facts"]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_during_an_import_says_where_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    pressed = KeyboardInterrupt("interrupted; continue with --skip 3")
    assert cli.execute(lambda: command_that_raises(pressed), []) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr() == ("", "engramlog: interrupted; continue with --skip 3\n")


def test_the_entry_point_loads_little_before_it_handles_ctrl_c() -> None:
    code = (
        "import sys, engramlog.api.cli.main\n"
        "print({'http.client', 'msgspec', 'ssl', 'engramlog.api.client.client'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_command_runs_without_the_streams_that_its_caller_closed(
    closed: str, tmp_path: Path
) -> None:
    remember = shlex.join(
        [sys.executable, "-m", "engramlog.api.cli.main", "remember", "tea", "--data", "data"]
    )
    env = environment({"STIGMEM_EMBED_ENABLED": "false"})
    done = subprocess.run(["sh", "-c", f"{remember} {closed}"], cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0
    listed = engramlog("facts", "--data", "data", "--json", cwd=tmp_path)
    assert [fact["value"]["v"] for fact in json.loads(listed.stdout)["facts"]] == ["tea"]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (ProjectorHalted("graph halted at 7"), "engramlog: graph halted at 7\n"),
        (PermissionError(13, "denied", "log.db"), "engramlog: log.db: denied\n"),
        (KeyError("fact"), "engramlog: unexpected KeyError: 'fact' (run again with "
         "'engramlog --traceback …' to see where)\n"),
    ],
)  # fmt: skip
def test_only_a_failure_that_is_not_our_own_is_unexpected(
    fault: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.execute(lambda: command_that_raises(fault), []) == 1
    assert capsys.readouterr().err == shown


def test_a_limit_of_threads_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    fault = RuntimeError("can't start new thread")
    assert cli.execute(lambda: command_that_raises(fault), []) == 1
    assert capsys.readouterr().err == (
        "engramlog: can't start new thread"
        " (the limit is that of ulimit -u, TasksMax in systemd, or the container's pids)\n"
    )
