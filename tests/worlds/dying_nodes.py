"""Writers that continue until their node dies, and checks of what is left."""

import threading
from pathlib import Path
from typing import Any

from engramlog.api.client.client import Client, ClientError
from engramlog.eventlog.directory import DataDirectory
from engramlog.replay.verify import verify_file
from tests.worlds.processes import NodeProcess, fact
from tests.worlds.waiting import until

WRITERS = 4
KILLED_AFTER_MAX = 120
"""A round acknowledges this many facts, or a few more, before the kill."""


class Writers:
    """Threads that write until the node dies, and remember the acknowledged writes."""

    def __init__(self, node: NodeProcess, start: int) -> None:
        self.acknowledged: dict[str, Any] = {}
        self._node = node
        self._next = start
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _number(self) -> int:
        with self._lock:
            self._next += 1
            return self._next

    def _write(self) -> None:
        with self._node.client() as client:
            while True:
                number = self._number()
                try:
                    if number % 7 == 0:
                        bodies = [fact(number * 1000 + n) for n in range(20)]
                        results = client.post("/v1/facts/batch", bodies)["results"]
                        written = [result["fact"] for result in results]
                    else:
                        written = [client.post("/v1/facts", fact(number))]
                except ClientError as fault:
                    if fault.status:  # it answered with a refusal
                        raise
                    return
                for record in written:
                    self.acknowledged[record["id"]] = record

    def until_acknowledged(self, count: int) -> None:
        """Wait for that many facts, or a few more."""
        until(lambda: len(self.acknowledged) >= count, pause_seconds=0.001)

    def join(self) -> int:
        """Wait for the end; returns the last number used."""
        for thread in self._threads:
            thread.join(30)
        return self._next


def _caught_up(client: Client) -> dict[str, Any]:
    """The node's status once its tables have followed; empty before."""
    ready = client.get("/readyz")
    return ready if all(mark["lag"] == 0 for mark in ready["projections"].values()) else {}


def check_whole(
    node: NodeProcess, data: Path, acknowledged: dict[str, Any], sample: list[str]
) -> None:
    """The log verifies, the projections have caught up, every acknowledged fact is there."""
    client = node.client()
    newest = sorted(acknowledged, key=lambda fact_id: acknowledged[fact_id]["position"])[-50:]
    for fact_id in {*sample, *newest}:
        found = client.get(f"/v1/facts/{fact_id}")
        assert found["cid"] == acknowledged[fact_id]["cid"]
        assert found["position"] == acknowledged[fact_id]["position"]
    # The start finishes and records interrupted erasures; tables follow.
    ready = until(lambda: _caught_up(client))
    assert ready["status"] == "ok"
    directory = DataDirectory.inspect(data)
    report = verify_file(
        directory.log_path, origin=directory.identity.node_id, epoch=directory.identity.epoch
    )
    assert report.fault is None
    assert report.events >= ready["position"]
