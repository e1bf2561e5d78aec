"""Two nodes over one log in this process, one of which follows it only before its own writes."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.worlds.live import LiveNode


@contextmanager
def two_nodes(folder: Path, url: str, **settings: Any) -> Generator[tuple[LiveNode, LiveNode]]:
    """Nodes over the log at ``url``."""
    settings = {"log": url, "log_durability": "server", **settings}
    first = LiveNode(folder / "first", **settings)
    first.node.identity.backup(folder / "second" / "identity")
    second = LiveNode(folder / "second", **settings)
    yield first, second
    second.close()
    first.close()


def lags(live: LiveNode) -> None:
    """Let a node follow the log only before its own writes, from now on."""
    shared = live.node.shared
    assert shared is not None
    shared.on_growth(lambda: None)
    live.node.writer.retry().result()  # what it heard of before is done


def seen(live: LiveNode, at: LiveNode) -> None:
    """Wait until ``live`` shows all that ``at`` has."""
    position = at.node.log.head().position
    assert live.call("GET", f"/healthz?min_position={position}").status_code == 200
