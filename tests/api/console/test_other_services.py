"""A URL of another service, which answers everything with its own JSON: each command says so, and
takes nothing of it for a node's answer."""

import argparse
import io
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engramlog.api.cli.main import build_parser, main
from engramlog.api.client.expected_answers import EXPECTED
from engramlog.api.http.app import ROUTES
from engramlog.api.http.openapi import build_openapi

AN_ID = "0190a5b6-0000-7000-8000-000000000001"
ASKS_NOTHING = ("ui", "mcp", "hook", "export", "import")
"""Commands that print an address, speak another protocol, or take lines as they come."""


class OtherService(BaseHTTPRequestHandler):
    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b'{"hello": "world"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  # the names of http.server

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherService) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_port}"
        service.shutdown()


def command_lines() -> Iterator[list[str]]:
    """Every command that takes a URL, with and without what it may leave out."""
    for words, parser in _commands(build_parser(), []):
        options = {name for each in _actions(parser) for name in each.option_strings}
        if "--url" not in options or words[0] in ASKS_NOTHING:
            continue
        json = ["--json"] if "--json" in options else []
        for whole in (False, True):
            if words == ["recall"] and not whole:  # needs a question, or keywords in its place
                continue
            line = [*words, *_arguments(parser, whole=whole)]
            yield line
            yield [*line, *json]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no other list


def _commands(
    parser: argparse.ArgumentParser, words: list[str]
) -> Iterator[tuple[list[str], argparse.ArgumentParser]]:
    groups = [each.choices for each in _actions(parser) if isinstance(each.choices, dict)]
    if not groups:
        yield words, parser
    for name, below in groups[0].items() if groups else ():
        yield from _commands(below, [*words, name])


def _arguments(parser: argparse.ArgumentParser, *, whole: bool) -> Iterator[str]:
    groups = parser._mutually_exclusive_groups  # pyright: ignore[reportPrivateUsage]
    firsts = [group._group_actions[0] for group in groups if group.required]  # pyright: ignore[reportPrivateUsage]
    for each in _actions(parser):
        optional = not each.option_strings and each.nargs == "?"
        if each.required or each in firsts or (whole and optional):
            yield from each.option_strings[-1:]
            yield next(iter(each.choices)) if each.choices else "7" if each.type is int else AN_ID


LINES = sorted({" ".join(line) for line in command_lines()})


@pytest.mark.parametrize("line", LINES)
def test_a_command_says_that_another_service_answered(
    line: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a text"))
    assert main([*line.split(" "), "--url", url]) == 1
    shown = capsys.readouterr()
    assert "hello" not in shown.out
    assert "unexpected" not in shown.err
    assert shown.err.startswith("engramlog: ")


@pytest.mark.parametrize(
    "words", ["erase status", "capability revoke", "key revoke", "receipts", "retract"]
)
def test_a_name_with_any_signs_stays_one_part_of_the_path(
    words: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(" "), "a b/c?d", "--url", url]) == 1
    assert "did not answer as a node" in capsys.readouterr().err


def test_a_file_of_episodes_takes_nothing_that_its_lines_say(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text("{}")
    assert main(["episodes", "add", "--file", str(file), "--user", "Ann", "--url", url]) == 1
    message = "engramlog: each line of --file has its own user: leave out --user\n"
    assert capsys.readouterr().err == message


def test_expected_fields_are_those_of_the_routes() -> None:
    document = build_openapi(ROUTES)
    schemas = document["components"]["schemas"]
    operations = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    for route, field in EXPECTED.items():
        answers = operations[route]["responses"]
        for status in [each for each in answers if each.startswith("2")]:
            if not field:
                assert "content" not in answers[status], route
                continue
            reference = answers[status]["content"]["application/json"]["schema"]["$ref"]
            assert field in schemas[reference.rpartition("/")[2]]["required"], route
