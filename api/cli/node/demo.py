"""``engramlog demo``: real history through the real write path, then questions over real HTTP.

The fixture's own dates become the log's receipt times, so that "as of" reaches back to
1957. The node listens on this machine only and needs no key.
"""

import argparse
import shutil
import signal
import tempfile
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from engramlog.api.cli.arguments import CommandError, data_directory, settings_of
from engramlog.api.cli.memories.transfer import import_lines, summary_of
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import day, fitted, short_name, value_text
from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import control_file
from engramlog.api.node.process.serving import listen, serve_in_background
from engramlog.api.settings import Settings
from engramlog.api.transfer.import_files import read_lines
from engramlog.api.transfer.importing import Options
from engramlog.api.transfer.lines.line_kinds import decode_line, recorded_us
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock

HISTORY = Path(__file__).parents[2] / "spaceflight" / "events.jsonl"
HOST = "127.0.0.1"
AUTHORITY = "stigmem://spaceflight.example"
QUESTION = "How many moons of Saturn are known?"
PAST_QUESTION = "Who led NASA in 1995?"
EARLIER = "1990-01-01T00:00:00Z"
ANSWERS = 3
PLUTO = f"{AUTHORITY}/body/pluto"
CLASSIFICATION = "space:classification"
PLUTO_MOMENTS = ("1990-01-01", "2000-06-01", "2006-08-25")
APOLLO = f"{AUTHORITY}/mission/apollo-11"
NEIGHBORS = 8
TEXT_WIDTH = 78
EXAMPLES = """\
examples:
  engramlog demo                 load, ask, print, and keep serving until Ctrl-C
  engramlog demo --once          the same, then stop
  engramlog demo --port 9000 --data demo-memory
"""
_SHOWN = ("query", "scope", "as_of")


def register(commands: Subcommands) -> None:
    parser = commands.add(
        "demo", "serve 68 years of space flight and ask about them", run_demo, EXAMPLES
    )
    parser.add_argument("--once", action="store_true", help="stop after printing")
    parser.add_argument("--port", type=int, default=8765, help="default: 8765")
    parser.add_argument(
        "--data",
        dest="data_dir",
        type=data_directory,
        metavar="DIR",
        help="default: a temporary directory",
    )


def run_demo(args: argparse.Namespace) -> int:
    """Load, serve, ask, print; then serve until interrupted unless ``--once``. Raises ServingError:
    the port is in use; CommandError: the directory is not new, or an answer is empty."""
    data: Path | None = args.data_dir
    if data is not None and data.exists() and any(data.iterdir()):
        raise CommandError(f"{data} is not empty; the demo needs a new directory")
    with ExitStack() as stack:
        bound = stack.enter_context(listen(HOST, args.port))
        port = bound.getsockname()[1]
        if data is None:
            folder = tempfile.mkdtemp(prefix="engramlog-demo-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            data = Path(folder)
        load(data)
        settings = settings_of(args, data_dir=data, host=HOST, port=port, auth_required=False)
        node = stack.enter_context(closing(Node.open(data)))
        control = stack.enter_context(serve_in_background(node, settings, bound))
        client = stack.enter_context(Client(control.url))
        show(client, control.url)
        if not args.once:
            node.embed(settings.embedding)
            stack.enter_context(control_file(data, control))
            _serve_until_stopped(f"serving {control.url} (data {data}); Ctrl-C stops")
    return 0


def load(data: Path) -> None:
    """Import the fixture into a new directory, with its dates as receipt times."""
    with HISTORY.open("rb") as raw:
        start_us = recorded_us(decode_line(raw.readline()))
    clock = FixedClock(start_us)
    settings = Settings(data_dir=data)
    with (
        closing(Node.open(data, clock=clock, epoch_clock="file")) as node,
        HISTORY.open("rb") as raw,
    ):
        try:
            report = import_lines(
                NodeSink(node, settings.value_bytes_max, clock=clock),
                Options(file_clock=True, value_bytes_max=settings.value_bytes_max),
                decode_line,
                read_lines(raw),
                raw=raw,
            )
        except KeyboardInterrupt:  # says how to continue an import, which a demo cannot
            raise KeyboardInterrupt from None
    print(f"loaded {HISTORY.parent.name}: {summary_of(report)}")


def show(client: Client, url: str) -> None:
    """Ask and print the answers. Raises CommandError if an answer is empty."""
    _show_recall(client, url, QUESTION)
    _show_recall(client, url, QUESTION, EARLIER)
    _show_recall(client, url, PAST_QUESTION)
    _show_life(client, url)
    _show_neighbors(client, url)


def _show_recall(client: Client, url: str, question: str, as_of: str | None = None) -> None:
    body: dict[str, Any] = {"query": question, "scope": "public", "limit": ANSWERS, "track": False}
    if as_of is None:
        _title(f"recall, now: {question}")
    else:
        body["as_of"] = as_of
        _title(f"recall, as of {day(as_of)}: {question}")
    answer = client.post("/v1/recall", body)
    _require(answer["facts"], "recall")
    for item in answer["facts"]:
        fact = item["fact"]
        fact_text = f"{short_name(fact['entity'])} {fact['relation']} {value_text(fact['value'])}"
        _line(f"  {item['score']:.2f}  {fact_text}")
        when = f"recorded {day(fact['timestamp'])} by"
        if fact["valid_until"]:
            when = f"held {day(fact['valid_from'])}..{day(fact['valid_until'])}, says"
        _line(f"        {when} {short_name(fact['source'])}")
    request_json = msgspec.json.encode(
        {name: body[name] for name in body if name in _SHOWN}
    ).decode()
    _repeat(f"curl -s {url}/v1/recall --json '{request_json}'")


def _show_life(client: Client, url: str) -> None:
    _title("the life of one fact: what is Pluto?")
    query: dict[str, object] = {"entity": PLUTO, "relation": CLASSIFICATION}
    everything = {
        **query,
        "include_retracted": True,
        "include_expired": True,
        "include_contradicted": True,
    }
    facts = client.get("/v1/facts", everything)["facts"]
    _require(facts, "the history of Pluto")
    states = {
        fact["id"]: "set aside" if fact["contradicted"] else "stands"
        for fact in client.get(
            "/v1/facts", {**query, "include_expired": True, "include_contradicted": True}
        )["facts"]
    }
    for fact in sorted(facts, key=lambda fact: str(fact["hlc"])):
        valid = f"valid {day(fact.get('valid_from'))}..{day(fact.get('valid_until'))}"
        state = states.get(fact["id"], "retracted")
        _line(
            f"  {day(fact['timestamp'])}  {value_text(fact['value'])}, {valid}, "
            f"says {short_name(fact['source'])} ({state})"
        )
    for moment in (*PLUTO_MOMENTS, None):
        at = {} if moment is None else {"as_of": f"{moment}T00:00:00Z"}
        known = client.get("/v1/facts", {**query, **at})["facts"]
        answer = ", ".join(value_text(fact["value"]) for fact in known) or "(disputed)"
        _line(f"  asked {'now' if moment is None else 'as of ' + moment}: {answer}")
    shown = urlencode({**query, "as_of": f"{PLUTO_MOMENTS[0]}T00:00:00Z"}, safe=":/")
    _repeat(f"curl -s '{url}/v1/facts?{shown}'")


def _show_neighbors(client: Client, url: str) -> None:
    _title("neighbours of Apollo 11")
    query = {"entity": APOLLO, "scope": "public", "page_size": NEIGHBORS}
    answer = client.get("/v1/graph/neighbors", query)
    _require(answer["neighbors"], "the neighbours of Apollo 11")
    for neighbor in answer["neighbors"]:
        _line(f"  {neighbor['relation']:<24} {short_name(neighbor['entity'])}")
    _repeat(f"curl -s '{url}/v1/graph/neighbors?{urlencode(query, safe=':/')}'")


def _title(text: str) -> None:
    print(f"\n{text}")


def _repeat(command: str) -> None:
    print(f"  $ {command}")


def _line(text: str) -> None:
    print(fitted(text, TEXT_WIDTH))


def _require(found: list[Any], what: str) -> None:
    if not found:
        raise CommandError(f"{what} came back empty")


def _serve_until_stopped(announcement: str) -> None:
    """Print the announcement, and wait for SIGINT or SIGTERM."""
    stopped = threading.Event()

    def handler(_number: int, _frame: object) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
    print("\nrecall compares words so far, and meanings as facts are embedded")
    print(announcement, flush=True)
    while not stopped.wait(1.0):
        pass
