"""The self-check: examines possible faults of a node one by one."""

import shutil
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.node.node_status import status_of_node
from engramlog.api.routes.recall.embeddings import status_of
from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.tables.store import unknown_events

routes = Routes("node")

DISK_FREE_BYTES_MIN = 1 << 30
CLOCK_AHEAD_MS_MAX = 60_000
EMBEDDING_LAG_MAX = 10_000
UNKNOWN_NAMED_MAX = 5

_Status: TypeAlias = Literal["ok", "warning", "failed"]
_Finding: TypeAlias = tuple[_Status, str]


class CheckOutcome(Struct, frozen=True):
    """One check; ``detail`` has the findings, and the remedy if the check fails."""

    name: str
    status: _Status
    detail: str


class DoctorReport(Struct):
    """A self-check. ``degraded`` if a check failed; ``reason`` is the first failure."""

    status: Literal["ok", "degraded"]
    memory_garden_acl_filtering: str
    reason: str | None
    position: int
    checks: list[CheckOutcome]


@routes.add("GET /v1/doctor", permission="any", long=True)
def doctor(call: Call) -> DoctorReport:
    """A self-check of the node."""
    checks = [CheckOutcome(name, *_found(look, call)) for name, look in _LOOKS.items()]
    failed = [check.detail for check in checks if check.status == "failed"]
    return DoctorReport(
        status="degraded" if failed else "ok",
        memory_garden_acl_filtering="enabled",
        reason=failed[0] if failed else None,
        position=call.node.log.head().position,
        checks=checks,
    )


def _found(look: Callable[[Call], _Finding], call: Call) -> _Finding:
    """The finding of one check. Storage that fails one must not hide what the others find."""
    try:
        return look(call)
    except StorageError as fault:
        return "failed", str(fault)


def _log(call: Call) -> _Finding:
    reason = call.node.writer.degraded
    if reason is not None:
        return "failed", reason
    fault = call.node.log.fault
    if fault is not None:
        return "failed", fault
    replica = status_of_node(call.node).get("replica")
    if replica is not None:
        return _replica(replica)
    return "ok", "writes are taken" + _place(call)


def _replica(status: dict[str, Any]) -> _Finding:
    primary = status["primary"]
    if status.get("fault"):
        return "failed", f"a replica that no longer follows {primary}: {status['fault']}"
    if not status["connected"]:
        return "warning", f"a replica of {primary}: {status['reason']}"
    return "ok", f"a replica, {status['lag']} positions behind {primary}, which takes the writes"


def _place(call: Call) -> str:
    """A description of a log that several nodes share."""
    shared, held = call.node.shared, call.node.log.held
    if shared is None:
        return ""
    part = "all scopes" if held == EVERY_SCOPE else f"scopes {', '.join(sorted(held))} alone"
    leads = "this node leads" if shared.leads else "another node leads, if any"
    return f"; in PostgreSQL, {part} of it; {leads}"


def _projections(call: Call) -> _Finding:
    halted = call.node.writer.store.halted
    if halted:
        name, why = next(iter(sorted(halted.items())))
        return "failed", f"projector {name} has halted: {why}"
    return "ok", "every projector runs"


def _events(call: Call) -> _Finding:
    """The node stores and chains peers' events of later releases, but does not interpret them."""
    unknown = call.node.reader.ask(unknown_events)
    if not unknown:
        return "ok", "every event is of a kind and version known here"
    named = [f"{count} of kind {kind!r} version {version}" for kind, version, count in unknown]
    listed = ", ".join(named[:UNKNOWN_NAMED_MAX])
    return "warning", f"events of later releases are ignored: {listed}"


def _disk(call: Call) -> _Finding:
    free = shutil.disk_usage(call.node.directory.path).free
    if free < DISK_FREE_BYTES_MIN:
        return "warning", "less than 1 GiB is free for the data directory"
    return "ok", "1 GiB and more is free"


def _clock(call: Call) -> _Finding:
    """Events from a clock that is ahead push this node's own readings ahead."""
    ahead_ms = call.node.log.head().received_hlc // 1000 - call.node.clock.now_us() // 1000
    if ahead_ms > CLOCK_AHEAD_MS_MAX:
        return "warning", "the log is over a minute ahead of this machine's clock"
    return "ok", "the clock and the log agree"


def _embeddings(call: Call) -> _Finding:
    found = status_of(call)
    if not found.enabled:
        return "ok", "off, or not begun: recall works by words and graph"
    if found.error:
        return "warning", found.error
    if found.lag > EMBEDDING_LAG_MAX:
        return "warning", "facts wait for embedding"
    return "ok", "facts are embedded as they arrive"


def _authentication(call: Call) -> _Finding:
    if call.service.settings.auth_required:
        return "ok", "callers need a key"
    return "warning", "every caller may read and write"


def _sanitizer(call: Call) -> _Finding:
    mode = call.service.settings.sanitizer_mode
    if mode == "off":
        return "warning", "facts pass without judgement"
    return "ok", f"mode {mode}"


_LOOKS: dict[str, Callable[[Call], _Finding]] = {
    "log": _log, "projections": _projections, "events": _events, "disk": _disk, "clock": _clock,
    "embeddings": _embeddings, "authentication": _authentication, "sanitizer": _sanitizer,
}  # fmt: skip
