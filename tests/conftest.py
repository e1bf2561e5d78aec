"""What tests of several rooms share: how examples are drawn, and one PostgreSQL server for each
test process.

Hypothesis draws the same examples in every run, so that a run says the same of the same code;
``--hypothesis-profile=random`` draws others, and more. How long each test took is kept in
``.pytest_cache/durations.tsv``, the slowest first."""

import gc
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from engramlog.api.node.process.process_tuning import settle_heap
from tests.worlds import postgres_servers
from tests.worlds.postgres_servers import Server, Servers, new_log

SHARING = ("system", "docs", "console")
"""Folders of files whose tests share processes: nodes, recall workers, browsers."""

# Explaining a failure traces every line: ten times slower than finding a smaller example.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("random", deadline=None, phases=_PHASES, print_blob=True)
settings.register_profile("same", settings.get_profile("random"), derandomize=True, max_examples=15)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") is None:
        # It also draws constants of the code that is imported so far, which depends on the tests
        # that ran before in the same process.
        assert hasattr(providers, "_get_local_constants")
        none = Constants()
        providers._get_local_constants = lambda: none  # pyright: ignore[reportPrivateUsage]
    # Shells start what runs in the background without Ctrl-C, and it hands that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # modules are no garbage: collections while they load are a quarter of it


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several test processes divide the list into parts of equal length, and at their end take from
    the end of another's part. So each part begins with its share of the files whose tests share
    processes: torn apart, each test process would start those again."""
    parts = getattr(config, "workerinput", {}).get("workercount", 1)
    if parts == 1:
        return
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(parts)]
    sharing = [each for path, each in files.items() if path.parent.name in SHARING]
    others = [each for path, each in files.items() if path.parent.name not in SHARING]
    for number, each in enumerate(sharing):
        hands[number % parts] += each
    for each in sorted(others, key=len, reverse=True):  # the parts become equally long
        min(hands, key=len).extend(each)
    items[:] = [item for hand in hands for item in hand]


def pytest_collection_finish() -> None:
    """Collect garbage as a node does that serves: about a tenth of the time of all tests."""
    settle_heap()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the collector reach what it ignored, or DuckDB's binding reports leaks at the exit."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def postgres_binaries() -> None:
    """Skips if there are no binaries of PostgreSQL."""
    reason = postgres_servers.missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def own_postgres_servers(postgres_binaries: None) -> Iterator[Servers]:
    """Servers that the test starts, stops and breaks."""
    servers = Servers()
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(scope="session")
def postgres_server(postgres_binaries: None) -> Iterator[Server]:
    """A server for logs of the test's own."""
    servers = Servers()
    try:
        yield servers.single()
    finally:
        servers.close()


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """An empty log, as its nodes reach it."""
    with new_log(postgres_server) as url:
        yield url


_seconds: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):  # the process that started this one writes them
        return
    rows = sorted(_seconds.items(), key=lambda row: -row[1])
    file = session.config.rootpath / ".pytest_cache" / "durations.tsv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{seconds:.3f}\t{name}\n" for name, seconds in rows))
