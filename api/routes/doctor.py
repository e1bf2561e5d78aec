"""The self-check: what could be wrong with a node, looked at one by one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Literal

from aiohttp import web
from msgspec import Struct

from api.bodies import answer
from api.call import Call
from api.routes.embeddings import status_of

DISK_FREE_BYTES_MIN = 1 << 30
CLOCK_AHEAD_MS_MAX = 60_000
EMBEDDING_LAG_MAX = 10_000
UNKNOWN_NAMED_MAX = 5


class Check(Struct, frozen=True):
    """What one look found."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str


async def doctor(call: Call) -> web.Response:
    """A self-check of the node."""
    checks = await call.in_pool(lambda: list(_checks(call)))
    failed = [check.detail for check in checks if check.status == "failed"]
    return answer(
        {
            "status": "degraded" if failed else "ok",
            "memory_garden_acl_filtering": "enabled",
            "reason": failed[0] if failed else None,
            "position": call.node.log.head().position,
            "checks": checks,
        }
    )


def _checks(call: Call) -> Iterator[Check]:
    for look in (
        _log,
        _projections,
        _events,
        _disk,
        _clock,
        _embeddings,
        _authentication,
        _sanitizer,
    ):
        yield look(call)


def _log(call: Call) -> Check:
    reason = call.node.writer.degraded
    if reason is not None:
        return Check("log", "failed", reason)
    return Check("log", "ok", "writes are taken")


def _projections(call: Call) -> Check:
    halted = call.node.writer.store.halted
    if halted:
        name, why = next(iter(sorted(halted.items())))
        return Check("projections", "failed", f"projector {name} is halted: {why}")
    return Check("projections", "ok", "every projector runs")


def _events(call: Call) -> Check:
    """What peers of later releases sent is kept and chained; here it means nothing yet."""
    unknown = call.node.reader.unknown_events()
    if not unknown:
        return Check("events", "ok", "every event is of a kind and version known here")
    named = [f"{count} of kind {kind!r} version {version}" for kind, version, count in unknown]
    told = ", ".join(named[:UNKNOWN_NAMED_MAX])
    return Check("events", "warning", f"events of later releases mean nothing here: {told}")


def _disk(call: Call) -> Check:
    free = shutil.disk_usage(call.node.directory.path).free
    if free < DISK_FREE_BYTES_MIN:
        return Check("disk", "warning", "less than 1 GiB is free for the data directory")
    return Check("disk", "ok", "1 GiB and more is free")


def _clock(call: Call) -> Check:
    """Events received from a clock that is ahead hold this node's own readings up."""
    ahead_ms = call.node.log.head().received_hlc // 1000 - call.node.clock.now_us() // 1000
    if ahead_ms > CLOCK_AHEAD_MS_MAX:
        return Check("clock", "warning", "the log is over a minute ahead of this machine's clock")
    return Check("clock", "ok", "the clock and the log agree")


def _embeddings(call: Call) -> Check:
    found = status_of(call)
    if not found["enabled"]:
        return Check("embeddings", "ok", "off: recall works by words and graph")
    if found["error"]:
        return Check("embeddings", "warning", str(found["error"]))
    if int(str(found["lag"])) > EMBEDDING_LAG_MAX:
        return Check("embeddings", "warning", "facts wait to be embedded")
    return Check("embeddings", "ok", "facts are embedded as they come")


def _authentication(call: Call) -> Check:
    if call.service.settings.auth_required:
        return Check("authentication", "ok", "callers need a key")
    return Check("authentication", "warning", "whoever reaches the node may read and write")


def _sanitizer(call: Call) -> Check:
    mode = call.service.settings.sanitizer_mode
    if mode == "off":
        return Check("sanitizer", "warning", "facts are served without being judged")
    return Check("sanitizer", "ok", f"mode {mode}")


_LOOKS = (
    _log, _projections, _events, _disk, _clock, _embeddings, _authentication, _sanitizer,
)  # fmt: skip
