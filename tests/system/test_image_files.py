"""Recall workers start from the node's files, and release them after an erasure."""

from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import Value
from tests.worlds.histories import asserted
from tests.worlds.processes import serving
from tests.worlds.recall_workers import children, ready, recall
from tests.worlds.waiting import until

ONE_WORKER = {"STIGMEM_RECALL_WORKERS": "1", "STIGMEM_EMBED_ENABLED": "false"}


def maps_an_image(pid: int) -> bool:
    return ".image" in Path(f"/proc/{pid}/maps").read_text()


def test_an_erasure_ends_the_workers_that_map_the_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    node = Node.open(data)
    node.write(*[asserted(value=Value("string", f"quagga {n}"), scope="company") for n in range(9)])
    fact = next(iter(node.reader.image.facts.slot_of))
    node.kept_image.write()
    node.write(asserted(value=Value("string", "quagga, written since"), scope="company"))
    node.close()
    with serving(data, "--no-auth", env=ONE_WORKER) as running:
        client, admin = running.client(), running.client(running.control.token)
        recall(client, "quagga")
        until(lambda: ready(client) == 1)
        (worker,) = children(running)
        assert maps_an_image(running.process.pid)
        assert maps_an_image(worker)
        assert len(recall(client, "quagga")["facts"]) == 10
        assert admin.post("/v1/erasures", {"fact_ids": [fact], "wait": True})["status"] == "clean"
        assert not maps_an_image(running.process.pid)
        assert worker not in children(running)
        assert not list((data / "image").iterdir())
        until(lambda: ready(client) == 1)
        assert not any(maps_an_image(each) for each in children(running))
        assert len(recall(client, "quagga")["facts"]) == 9
