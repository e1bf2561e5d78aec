"""The demo in one process: loads, queries over HTTP, prints, and can be repeated with curl."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.processes import engramlog, environment

LINES_MAX = 60


@pytest.fixture(scope="module")
def output() -> str:
    done = engramlog("demo", "--once", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_it_fits_on_a_page(output: str) -> None:
    assert len(output.splitlines()) <= LINES_MAX


def test_recall_differs_between_now_and_then(output: str) -> None:
    now, then, _ = (part for part in output.split("\n\n") if part.startswith("recall, "))
    assert "body/saturn space:moon-count 274" in now
    assert "body/saturn space:moon-count 17" in then


def test_a_question_about_a_past_year_is_answered_by_what_held_then(output: str) -> None:
    (recalled,) = (part for part in output.split("\n\n") if "in 1995?" in part)
    assert "person/daniel-goldin" in recalled.splitlines()[1]
    assert "held 1992-04-01..2001-11-17" in recalled.splitlines()[2]


def test_the_demo_shows_the_life_of_pluto(output: str) -> None:
    (life,) = (part for part in output.split("\n\n") if part.startswith("the life of one fact"))
    assert re.search(r"planet, valid 1930-03-13\.\.-, says source/iau \(retracted\)", life)
    assert "dwarf planet, valid 2006-08-24..-, says source/iau (stands)" in life
    assert "asked as of 1990-01-01: planet" in life
    assert "asked now: dwarf planet" in life


def test_apollo_11_has_its_neighbours(output: str) -> None:
    assert "body/moon" in output
    assert "person/neil-armstrong" in output


def test_a_taken_port_is_named_before_anything_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = engramlog("demo", "--once", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (1, "")
    assert "choose another with --port" in done.stderr


def test_a_directory_in_use_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    done = engramlog("demo", "--once", "--port", "0", "--data", tmp_path)
    assert done.returncode == 1
    assert "is not empty" in done.stderr


def test_it_serves_until_interrupted_and_its_curl_lines_and_commands_work(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "engramlog.api.cli.main",
            "demo",
            "--port",
            "0",
            "--data",
            str(tmp_path / "d"),
        ],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        with process.stdout as stdout:
            for line in stdout:
                lines.append(line)
                if line.startswith("serving "):
                    break
            commands = re.findall(r"\$ (curl .+)", "".join(lines))
            assert len(commands) == 5
            for command in commands:
                subprocess.run([*shlex.split(command), "--fail"], check=True, timeout=10)
            receipts = engramlog("receipts", "--data", tmp_path / "d", "--json")
            asked = json.loads(receipts.stdout)["receipts"]
            instants = {each["moment"]["instant"][:4] for each in asked}
            assert instants == {"1990", asked[0]["answered_at"][:4]}
            listed = engramlog("receipts", "--data", tmp_path / "d").stdout
            assert "as of position" in listed
            for each in asked:
                assert f" {each['moment']['position']} " in listed
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait(20)
