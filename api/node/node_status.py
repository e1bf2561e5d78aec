"""The state of a node for its operator."""

from typing import Any

import msgspec

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import COUNTER_LIMIT
from engramlog.eventlog.held_scopes import EVERY_SCOPE


def status_of_node(node: Node) -> dict[str, Any]:
    """The position that readers see, every projector's checkpoint, and why the node is not ready,
    if so. The log may be ahead of the position: of events just copied, or of other nodes."""
    head = node.log.head()
    store = node.writer.store
    projections = {
        name: {
            "version": mark.version,
            "position": mark.position,
            # The tables get a group of events before the log does.
            "lag": max(0, head.position - mark.position),
            "halted": mark.halted,
        }
        for name, mark in sorted(store.checkpoints.items())
    }
    halted = [f"projector {name} is halted: {why}" for name, why in store.halted.items()]
    # The clock is behind the log after a jump back.
    reached_us = max(head.received_at, head.received_hlc // COUNTER_LIMIT * 1000)
    behind_us = max(0, reached_us - node.clock.now_us())
    return {
        "position": node.reader.image.position,
        "clock_behind_s": round(behind_us / 1e6, 3),
        "projections": projections,
        "degraded": node.writer.degraded or (halted[0] if halted else node.log.fault),
        **_replica_status(node),
        **({} if node.log.held == EVERY_SCOPE else {"scopes": sorted(node.log.held)}),
    }


def _replica_status(node: Node) -> dict[str, Any]:
    """Status fields of replicas; ``degraded`` if an operator has to act."""
    if node.replica is None:
        return {}
    described: dict[str, Any] = {"primary": node.replica.primary_url}
    if node.follower is None:
        return {"replica": described | {"connected": False, "reason": "not following"}}
    status = node.follower.status
    described |= msgspec.structs.asdict(status)
    behind_us = described.pop("behind_us")
    described["lag"] = max(0, status.primary_position - node.reader.image.position)
    described["behind_s"] = None if behind_us is None else round(behind_us / 1e6, 3)
    return {"replica": described} | ({"degraded": status.fault} if status.fault else {})
