"""The self-check: examines possible faults of a node one by one."""

import shutil
from typing import Literal

from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.routes.recall.embeddings import status_of
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.tables.store import unknown_events

routes = Routes("node")

DISK_FREE_BYTES_MIN = 1 << 30
CLOCK_AHEAD_MS_MAX = 60_000
EMBEDDING_LAG_MAX = 10_000
UNKNOWN_NAMED_MAX = 5


class CheckOutcome(Struct, frozen=True):
    """One check; ``detail`` has the findings, and the remedy if the check fails."""

    name: str
    status: Literal["ok", "warning", "failed"]
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
    checks = [look(call) for look in _LOOKS]
    failed = [check.detail for check in checks if check.status == "failed"]
    return DoctorReport(
        status="degraded" if failed else "ok",
        memory_garden_acl_filtering="enabled",
        reason=failed[0] if failed else None,
        position=call.node.log.head().position,
        checks=checks,
    )


def _log(call: Call) -> CheckOutcome:
    reason = call.node.writer.degraded
    if reason is not None:
        return CheckOutcome("log", "failed", reason)
    fault = call.node.log.fault
    if fault is not None:
        return CheckOutcome("log", "failed", fault)
    return CheckOutcome("log", "ok", "writes are taken" + _place(call))


def _place(call: Call) -> str:
    """A description of a log that several nodes share."""
    shared, held = call.node.shared, call.node.log.held
    if shared is None:
        return ""
    part = "all scopes" if held == EVERY_SCOPE else f"scopes {', '.join(sorted(held))} alone"
    leads = "this node leads" if shared.leads else "another node leads, if any"
    return f"; in PostgreSQL, {part} of it; {leads}"


def _projections(call: Call) -> CheckOutcome:
    halted = call.node.writer.store.halted
    if halted:
        name, why = next(iter(sorted(halted.items())))
        return CheckOutcome("projections", "failed", f"projector {name} has halted: {why}")
    return CheckOutcome("projections", "ok", "every projector runs")


def _events(call: Call) -> CheckOutcome:
    """The node stores and chains peers' events of later releases, but does not interpret them."""
    unknown = call.node.reader.ask(unknown_events)
    if not unknown:
        return CheckOutcome("events", "ok", "every event is of a kind and version known here")
    named = [f"{count} of kind {kind!r} version {version}" for kind, version, count in unknown]
    listed = ", ".join(named[:UNKNOWN_NAMED_MAX])
    return CheckOutcome("events", "warning", f"events of later releases are ignored: {listed}")


def _disk(call: Call) -> CheckOutcome:
    free = shutil.disk_usage(call.node.directory.path).free
    if free < DISK_FREE_BYTES_MIN:
        return CheckOutcome("disk", "warning", "less than 1 GiB is free for the data directory")
    return CheckOutcome("disk", "ok", "1 GiB and more is free")


def _clock(call: Call) -> CheckOutcome:
    """Events from a clock that is ahead push this node's own readings ahead."""
    ahead_ms = call.node.log.head().received_hlc // 1000 - call.node.clock.now_us() // 1000
    if ahead_ms > CLOCK_AHEAD_MS_MAX:
        return CheckOutcome(
            "clock", "warning", "the log is over a minute ahead of this machine's clock"
        )
    return CheckOutcome("clock", "ok", "the clock and the log agree")


def _embeddings(call: Call) -> CheckOutcome:
    found = status_of(call)
    if not found.enabled:
        return CheckOutcome("embeddings", "ok", "off: recall works by words and graph")
    if found.error:
        return CheckOutcome("embeddings", "warning", found.error)
    if found.lag > EMBEDDING_LAG_MAX:
        return CheckOutcome("embeddings", "warning", "facts wait for embedding")
    return CheckOutcome("embeddings", "ok", "facts are embedded as they arrive")


def _authentication(call: Call) -> CheckOutcome:
    if call.service.settings.auth_required:
        return CheckOutcome("authentication", "ok", "callers need a key")
    return CheckOutcome("authentication", "warning", "every caller may read and write")


def _sanitizer(call: Call) -> CheckOutcome:
    mode = call.service.settings.sanitizer_mode
    if mode == "off":
        return CheckOutcome("sanitizer", "warning", "facts pass without judgement")
    return CheckOutcome("sanitizer", "ok", f"mode {mode}")


_LOOKS = (
    _log, _projections, _events, _disk, _clock, _embeddings, _authentication, _sanitizer,
)  # fmt: skip
