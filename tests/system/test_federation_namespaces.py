"""Three nodes as processes in network their own namespaces, over a wire with every fault."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.client.client import Client
from tests.worlds.federation.processes import OPEN, level, mesh
from tests.worlds.federation.texts import texts
from tests.worlds.federation.wire import Rules, Wire, wire_or_skip
from tests.worlds.processes import ROOT, NodeProcess, engramlog
from tests.worlds.waiting import until

TESTER = "tester"
NODES = ["n0", "n1", "n2"]
SKEWS = {"n0": 0, "n1": 12, "n2": -14}
"""Seconds; tokens allow for 30 between two nodes."""
PORT = "7213"
BAD = Rules(delay_ms=20, jitter_ms=40, duplicated=0.05, lost=0.02)
CUT = Rules(cut=True)
CLOCKS = ROOT / "tests" / "worlds" / "federation" / "skewed"


@pytest.fixture
def wire() -> Iterator[Wire]:
    made: Wire = wire_or_skip([TESTER, *NODES])
    yield made
    made.close()


class Cluster:
    """The nodes' processes by name; started again they keep address and data."""

    def __init__(self, wire: Wire, folder: Path, stack: ExitStack) -> None:
        self.nodes: dict[str, NodeProcess] = {}
        self._wire = wire
        self._folder = folder
        self._stack = stack

    def start(self, name: str) -> None:
        address = self._wire.address(name)
        env = {
            **OPEN,
            "STIGMEM_HOST": address,
            "STIGMEM_PORT": PORT,
            "STIGMEM_NODE_URL": f"http://{address}:{PORT}",
            "PYTHONPATH": f"{CLOCKS}:{ROOT}",
            "TEST_CLOCK_SKEW_SECONDS": str(SKEWS[name]),
        }
        within = self._wire.within(name)
        node = NodeProcess(self._folder / name, "--port", PORT, env=env, within=within)
        self._stack.callback(node.kill)
        self.nodes[name] = node.wait_ready()

    def client(self, name: str) -> Client:
        node = self.nodes[name]
        return node.client(node.control.token)

    def state(self, name: str, text: str, **more: Any) -> dict[str, Any]:
        return self.client(name).post(
            "/v1/facts",
            {
                "entity": "stigmem://t.example/project/atlas",
                "relation": "memory:note",
                "value": {"type": "text", "v": text},
                "source": f"agent:{name}",
                "scope": "company",
                **more,
            },
        )

    def all(self) -> list[NodeProcess]:
        return [self.nodes[name] for name in NODES]

    def heard(self, wanted: set[str]) -> bool:
        return all(wanted <= texts(self.client(name)) for name in NODES)


@pytest.fixture
def cluster(wire: Wire, tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(wire, tmp_path, stack)


def test_cut_delayed_duplicated_reordered_crashed_and_skewed_nodes_end_equal(
    wire: Wire, cluster: Cluster
) -> None:
    wire.run(TESTER, lambda: everything_goes_wrong(wire, cluster))
    assert wire.repeated > 0
    assert wire.overtaken > 0
    assert wire.dropped > 0


def everything_goes_wrong(wire: Wire, cluster: Cluster) -> None:
    for name in NODES:
        cluster.start(name)
    mesh(cluster.all(), retract_foreign=True, resolve_foreign=True)
    _clocks_are_skewed(cluster)
    wire.everywhere(NODES, BAD)
    wanted = {f"over a bad wire {name} {n}" for name in NODES for n in range(20)}
    for n in range(20):
        for name in NODES:
            cluster.state(name, f"over a bad wire {name} {n}")
    until(lambda: cluster.heard(wanted))

    # One is disconnected; both sides continue and contradict each other.
    wire.between("n0", "n1", CUT)
    wire.between("n0", "n2", CUT)
    role = {"relation": "memory:role", "entity": "stigmem://t.example/user/ann"}
    first = cluster.state("n0", "CTO", **role)
    cluster.state("n1", "CFO", **role)
    for n in range(20):
        cluster.state("n0", f"alone {n}")
        cluster.state("n1", f"the others {n}")
    until(lambda: "the others 19" in texts(cluster.client("n2")))
    assert "alone 0" not in texts(cluster.client("n2"))
    assert "the others 0" not in texts(cluster.client("n0"))

    # Another dies, and returns while the first is still disconnected.
    cluster.nodes["n1"].kill()
    cluster.state("n2", "while n1 was dead")
    cluster.start("n1")
    cluster.state("n1", "back again")
    wire.everywhere(NODES, BAD)
    wanted |= {f"alone {n}" for n in range(20)} | {f"the others {n}" for n in range(20)}
    wanted |= {"while n1 was dead", "back again", "CTO", "CFO"}
    until(lambda: cluster.heard(wanted))
    cluster.client("n2").post(f"/v1/facts/{first['id']}/retract", {})
    until(lambda: all("CTO" not in texts(cluster.client(name)) for name in NODES))
    until(lambda: level(cluster.all()))
    for node in cluster.all():
        assert node.stop() == 0
        done = engramlog("replay", "verify", "--data", node.data)
        assert done.returncode == 0, done.stderr


def _clocks_are_skewed(cluster: Cluster) -> None:
    """That the processes have the clocks the test wants; their facts say so."""
    recorded = {name: cluster.state(name, f"clock of {name}")["timestamp"] for name in NODES}
    assert recorded["n2"] < recorded["n0"] < recorded["n1"]
