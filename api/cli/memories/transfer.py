"""``engramlog import`` and ``engramlog export``: facts from and to files."""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

from tqdm import tqdm

from engramlog.api.cli.arguments import (
    CommandError,
    add_target_arguments,
    client_for_url,
    settings_of,
    url_of,
)
from engramlog.api.cli.memories.embedding_imports import embed_imported
from engramlog.api.cli.opening import node_or_client, open_node
from engramlog.api.cli.output_file import output_file
from engramlog.api.cli.progress import progress_bar
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.client.client import Client
from engramlog.api.node.log_place import open_log_to_read
from engramlog.api.settings import Settings
from engramlog.api.transfer.exporting import export_lines
from engramlog.api.transfer.import_files import Receipts, read_lines
from engramlog.api.transfer.importing import Importer, ImportReport, Options, Sink
from engramlog.api.transfer.known_facts import Known
from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.line_kinds import AnyLine, decode_line, recorded_us
from engramlog.api.transfer.mapping import load_mapping
from engramlog.api.transfer.sinks import ControlSink, NodeSink
from engramlog.api.transfer.tables_and_notes import READERS, Reader
from engramlog.api.transfer.url_sink import UrlSink
from engramlog.eventlog.clock import FixedClock, SystemClock
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.errors import DirectoryLocked
from engramlog.eventlog.kinds import EpochStarted
from engramlog.eventlog.log import ReadableLog

IMPORT_EXAMPLES = """\
each line is JSON; op defaults to assert:
  {"entity": "user:ann", "relation": "memory:role", "value": {"type": "string", "v": "CEO"},
   "source": "agent:hr", "scope": "company", "key": "ann-ceo"}
  {"op": "retract", "target": "ann-ceo"}

examples:
  engramlog import facts.jsonl --data memory
  engramlog import chat.jsonl --data memory --mapping mapping.json     (see docs/my-data.md)
  zcat facts.jsonl.gz | engramlog import - --data memory --quiet
  engramlog import history.jsonl --data new --clock-from-file
  engramlog import events.jsonl.gz --data memory --mapping congress.json --receipts receipts.jsonl
  engramlog import facts.jsonl --url http://127.0.0.1:8765 --key-env MY_KEY
"""
EXPORT_EXAMPLES = """\
examples:
  engramlog export --data memory > memory.jsonl
  engramlog export --data memory --output memory.jsonl
  engramlog import memory.jsonl --data copy --clock-from-file
"""

FACTS = ("asserted", "existing", "applied", "resolved")
"""What an import says of facts that may wait for their vectors: an earlier one may have been
stopped before it made them."""


def register(commands: Subcommands) -> None:
    parser = commands.add(
        "import", "write facts from a JSONL, CSV or Markdown file", run_import, IMPORT_EXAMPLES
    )
    parser.add_argument(
        "file", metavar="FILE", help="JSONL, .csv or .md, plain or gzip; - for stdin"
    )
    add_target_arguments(parser)
    parser.add_argument(
        "--mapping", type=Path, metavar="FILE", help="templates that turn other JSONL into lines"
    )
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="at a refused line (default: stop)",
    )
    parser.add_argument(
        "--skip", type=_count, default=0, metavar="N", help="skip the first N lines"
    )
    parser.add_argument(
        "--clock-from-file",
        action="store_true",
        help="take receipt times from recorded_at; only into an empty log",
    )
    parser.add_argument(
        "--receipts", type=Path, metavar="FILE", help="write the result of each line as JSONL"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")

    parser = commands.add("export", "write a log as JSONL", run_export, EXPORT_EXAMPLES)
    add_target_arguments(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: stdout")
    parser.add_argument(
        "--declarations",
        action="store_true",
        help="with --url: also policies, trust, rules and other declarations (admin)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def run_import(args: argparse.Namespace) -> int:
    """Import a file; exit code 1 if the node refused a line."""
    mapping = None if args.mapping is None else load_mapping(args.mapping)
    parse = _own_line if mapping is None else mapping.line
    first = () if mapping is None else mapping.first
    with ExitStack() as stack:
        raw = _open(args.file, stack)
        lines, first_time = _peek(_lines(args, raw), parse, file_clock=args.clock_from_file)
        settings, sink = _sink(args, first_time, stack)
        options = Options(
            on_error=args.on_error,
            skip=args.skip,
            known=_known(args),
            file_clock=args.clock_from_file,
            value_bytes_max=settings.value_bytes_max,
        )
        report = import_lines(
            sink, options, parse, lines, first, raw=raw, quiet=args.quiet, receipts=args.receipts
        )
        if not args.quiet:
            print(summary_of(report), flush=True)
        if isinstance(sink, NodeSink) and not report.counts.keys().isdisjoint(FACTS):
            embed_imported(sink.node, settings, report.counts.get("asserted", 0), quiet=args.quiet)
    return 1 if report.failed else 0


def _known(args: argparse.Namespace) -> Known:
    """What to do with facts that are live already. By URL, a look at each costs a request."""
    if _is_export(args):
        return "write" if args.clock_from_file or args.url else "export"
    if args.clock_from_file:
        return "write"
    return "leave" if args.mapping is None else "count"


def _own_line(text: bytes) -> AnyLine:
    try:
        return decode_line(text)
    except LineError as fault:
        if fault.field:
            raise
        raise LineError(
            f"{fault}; 'engramlog import --help' shows a line (a table is a .csv, notes are a .md)"
        ) from fault


def _lines(args: argparse.Namespace, raw: IO[bytes]) -> Iterator[bytes]:
    """The file's lines, or those made from its table or notes."""
    reader = _reader(args)
    return read_lines(raw) if reader is None else reader(_unpacked(args), read_lines(raw))


def _reader(args: argparse.Namespace) -> Reader | None:
    """What makes lines of the file, if it is a table or notes."""
    return READERS.get(Path(_unpacked(args)).suffix.lower()) if args.mapping is None else None


def _is_export(args: argparse.Namespace) -> bool:
    """Whether the file has lines of this program, which declare relations. Other files cannot."""
    return args.mapping is None and _reader(args) is None


def _unpacked(args: argparse.Namespace) -> str:
    """The file's name without the ``.gz`` of a packed one."""
    return args.file[:-3] if args.file.lower().endswith(".gz") else args.file


def import_lines(
    sink: Sink,
    options: Options,
    parse: Callable[[bytes], AnyLine],
    lines: Iterator[bytes],
    first: Sequence[AnyLine] = (),
    *,
    raw: IO[bytes],
    quiet: bool = False,
    receipts: Path | None = None,
) -> ImportReport:
    """Import with a progress bar over the file's bytes. Raises ImportStopped."""
    with ExitStack() as stack:
        note = None
        if receipts is not None:
            file = Receipts(receipts, append=options.skip > 0)
            stack.callback(file.close)
            note = file.note
        bar = stack.enter_context(
            tqdm(
                total=_size(raw),
                unit="B",
                unit_scale=True,
                desc="import",
                disable=quiet or not sys.stderr.isatty(),
            )
        )
        done = options.skip

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.set_postfix_str(f"{done:,} lines", refresh=False)
            bar.update(_offset(raw) - bar.n)

        def complain(message: str) -> None:
            bar.write(f"engramlog: {message}", file=sys.stderr)

        importer = Importer(sink, options, parse, receipt=note, advance=advance, complain=complain)
        return importer.run(lines, first)


def summary_of(report: ImportReport) -> str:
    """One line about an import."""
    parts = [f"{count:,} {status}" for status, count in report.counts.items()]
    if report.failed:
        parts.append(f"{report.failed:,} refused")
    rate = report.lines / report.seconds if report.seconds else 0.0
    end = f"; log position {report.position}" if report.position else ""
    return (
        f"{report.lines:,} lines in {report.seconds:.1f} s ({rate:,.0f}/s): "
        f"{', '.join(parts) or 'nothing to do'}{end}"
    )


def _open(name: str, stack: ExitStack) -> IO[bytes]:
    if name == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as fault:
        raise CommandError(f"cannot read {name}: {fault.strerror}") from fault


def _peek(
    lines: Iterator[bytes], parse: Callable[[bytes], AnyLine], *, file_clock: bool
) -> tuple[Iterator[bytes], int | None]:
    """The lines, and the time of the first one if the file's clock applies."""
    if not file_clock:
        return lines, None
    taken: list[bytes] = []
    for line in lines:
        taken.append(line)
        if line.strip():
            try:
                return itertools.chain(taken, lines), recorded_us(parse(line))
            except LineError as fault:
                raise CommandError(f"line {len(taken)}: {fault}") from fault
    return iter(taken), None


def _sink(
    args: argparse.Namespace, first_time: int | None, stack: ExitStack
) -> tuple[Settings, Sink]:
    """Where the lines go: a node by URL, the node that serves the directory, or the directory
    itself."""
    url = url_of(args)
    settings = settings_of(args)
    if url is not None:
        if args.clock_from_file:
            raise CommandError("--clock-from-file needs --data: a running node has its own clock")
        return settings, UrlSink(stack.enter_context(client_for_url(args, url)))
    if args.clock_from_file:
        try:
            return settings, _clocked_sink(args, settings, first_time, stack)
        except DirectoryLocked as fault:
            raise CommandError(
                f"{fault}; --clock-from-file needs the directory for itself: stop the node"
            ) from fault
    node = node_or_client(settings, lambda: open_node(settings, imports=_is_export(args)))
    if isinstance(node, Client):
        return settings, ControlSink(stack.enter_context(node))
    stack.callback(node.close)
    return settings, NodeSink(node, settings.value_bytes_max)


def _clocked_sink(
    args: argparse.Namespace, settings: Settings, first_time: int | None, stack: ExitStack
) -> NodeSink:
    clock = FixedClock(first_time or 0)
    begins = not (args.skip > 0 and has_file_clock(settings.data_dir))
    node = open_node(settings, clock=clock, from_file=begins, imports=_is_export(args))
    stack.callback(node.close)
    return NodeSink(node, settings.value_bytes_max, clock=clock)


def has_file_clock(data: Path) -> bool:
    """Whether the directory's log has receipt times from a file."""
    if not (data / "log.db").exists():
        return False
    with closing(read_only_log(data)) as log:
        begun = [event.payload for event in log.read(0, 1)]
    return any(isinstance(payload, EpochStarted) and payload.clock == "file" for payload in begun)


def read_only_log(data: Path, url: str = "") -> ReadableLog:
    """The log of a directory, even while a node holds it."""
    return open_log_to_read(DataDirectory.inspect(data), SystemClock(), url)


def run_export(args: argparse.Namespace) -> int:
    url = url_of(args)
    left_out: Counter[str] = Counter()
    with ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        if args.output is not None:
            out = stack.enter_context(output_file(args.output))
        bar = stack.enter_context(
            progress_bar("export", "event", quiet=args.quiet or sys.stdout.isatty())
        )
        if url is not None:
            client = stack.enter_context(client_for_url(args, url))
            total = None
            lines = enumerate(client.lines("/v1/export", {"declarations": args.declarations}), 1)
        else:
            settings = settings_of(args)
            log = stack.enter_context(closing(read_only_log(settings.data_dir, settings.log)))
            total = log.head().position
            lines = export_lines(log, total, left_out)
        for done, line in lines:
            out.write(line)
            if done % 1000 == 0:
                bar.show(done, total or done)
        out.flush()
    if left_out and not args.quiet:
        counted = ", ".join(f"{count} {what}" for what, count in sorted(left_out.items()))
        print(f"left out, as they do not travel: {counted}", file=sys.stderr)
        print("engramlog backup keeps everything", file=sys.stderr)
    return 0


def _size(raw: IO[bytes]) -> int | None:
    if not raw.seekable():
        return None
    here = raw.tell()
    size = raw.seek(0, 2)
    raw.seek(here)
    return size


def _offset(raw: IO[bytes]) -> int:
    return raw.tell() if raw.seekable() else 0
