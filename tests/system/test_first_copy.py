"""A new replica over a link that breaks off: it serves once it has the whole log of its primary."""

import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.worlds.cutting_proxy import CuttingProxy, cutting
from tests.worlds.processes import NodeProcess, engramlog, fact, serving
from tests.worlds.replicas import assert_equal, replica_key
from tests.worlds.waiting import until

CARRIED_BYTES = 40_000
"""The link breaks off at the one larger event."""


@contextmanager
def linked(data: Path) -> Generator[tuple[NodeProcess, CuttingProxy]]:
    """A primary with a large fact among others, and the link to it."""
    with serving(data, "--no-auth") as primary:
        client = primary.client()
        client.post("/v1/facts/batch", [fact(n) for n in range(30)])
        large = random.Random(1).randbytes(2 * CARRIED_BYTES).hex()
        client.post("/v1/facts", fact(30, value={"type": "text", "v": large}))
        client.post("/v1/facts/batch", [fact(n) for n in range(31, 60)])
        with cutting(primary.url, CARRIED_BYTES) as link:
            yield primary, link


def replica(data: Path, link: CuttingProxy, key: str) -> NodeProcess:
    return NodeProcess(
        data, "--no-auth", "--replica-of", link.url, env={"STIGMEM_REPLICA_KEY": key}
    )


def told(node: NodeProcess) -> list[tuple[str, str]]:
    """How far the first copy was, each time that it had to wait."""
    return re.findall(r"the first copy has (\d+)(?: of (\d+))? events", node.errors())


def test_a_first_copy_waits_for_the_primary_and_serves_no_part_of_the_log(tmp_path: Path) -> None:
    with linked(tmp_path / "primary") as (primary, link):
        key, position = replica_key(primary), primary.client().get("/readyz")["position"]
        copy = replica(tmp_path / "copy", link, key)
        until(lambda: told(copy))
        done, of = map(int, told(copy)[0])
        assert 0 < done < of == position
        copy.kill()
        copy = replica(tmp_path / "copy", link, key)  # and after a restart
        until(lambda: len(told(copy)) > 1)
        assert copy.process.poll() is None
        assert not copy.ready_line
        link.most = 10**9
        try:
            copy.wait_ready()
            assert copy.ready_line.endswith(f"position {position})")
            assert_equal(primary, copy)
        finally:
            copy.kill()


def test_only_the_primary_completes_a_first_copy(tmp_path: Path) -> None:
    with linked(tmp_path / "primary") as (primary, link):
        copy = replica(tmp_path / "copy", link, replica_key(primary))
        until(lambda: told(copy))
        copy.kill()
    for command in (
        ("promote", "--data", copy.data),
        ("replay", "verify", "--data", copy.data),
        ("backup", tmp_path / "backup", "--data", copy.data),
        ("copy-log", copy.data, tmp_path / "another"),
    ):
        refused = engramlog(*command)
        assert refused.returncode == 1, command
        assert "is an incomplete copy" in refused.stderr, command
    assert not (tmp_path / "backup").exists()
