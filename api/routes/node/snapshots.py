"""Snapshots of the tables: take, list, verify, remove, and send to replicas."""

import asyncio
from contextlib import suppress
from typing import Annotated, BinaryIO

from aiohttp import web
from msgspec import Struct
from pydantic import Field

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.node.tasks.jobs import SnapshotJob
from engramlog.api.node.tasks.snapshots import SnapshotList
from engramlog.api.schemas.values import Model
from engramlog.replay.snapshot import READ_BYTES, SnapshotFault, encode_snapshot, position_named

routes = Routes("node")

Position = Annotated[int, Field(strict=True, ge=1, le=2**53)]


class SnapshotBody(Model, extra="forbid"):
    """``position``: a past one; null: the current tables."""

    position: Position | None = None


class VerifyBody(Model, extra="forbid"):
    """``position``: of one snapshot; null: all. ``replay``: also compare with the log."""

    position: Position | None = None
    replay: bool = False


class SnapshotRemoved(Struct):
    """The removed snapshot."""

    removed: int


SNAPSHOT_TYPE = "application/vnd.engramlog.snapshot"


@routes.add("POST /v1/admin/snapshots", permission="admin", body_required=False, status=202)
async def take(call: Call, body: SnapshotBody) -> SnapshotJob:
    """Take a snapshot in the background; ``job`` of the list shows its progress."""
    call.service.snapshots.take(body.position)
    return call.service.snapshots.job.record()


@routes.add("GET /v1/admin/snapshots", permission="admin")
def list_all(call: Call) -> SnapshotList:
    """Every snapshot, and the progress of the current job."""
    return call.service.snapshots.records()


@routes.add(
    "POST /v1/admin/snapshots/verify",
    permission="admin",
    body_required=False,
    status=202,
    errors=(404,),
)
async def verify(call: Call, body: VerifyBody) -> SnapshotJob:
    """Read every row of one or all snapshots in the background."""
    call.service.snapshots.verify(body.position, replay=body.replay)
    return call.service.snapshots.job.record()


@routes.add("DELETE /v1/admin/snapshots/{position}", permission="admin")
async def remove(call: Call) -> SnapshotRemoved:
    """Remove a snapshot."""
    position = _position(call)
    try:
        await asyncio.to_thread(call.node.snapshots.remove, position)
    except SnapshotFault as fault:
        raise coded("snapshot_not_found", str(fault)) from fault
    return SnapshotRemoved(position)


@routes.add(
    "GET /v1/replication/snapshots",
    permission="replicate",
    answers={200: Media("application/x-ndjson", "one document a line, newest first")},
    group="replication",
)
def documents(call: Call) -> web.Response:
    """The documents of all snapshots, newest first, for replicas."""
    found, _ = call.node.snapshots.all()
    body = b"".join(encode_snapshot(each) for each in found)
    return web.Response(body=body, content_type="application/x-ndjson")


@routes.add(
    "GET /v1/replication/snapshots/{position}",
    permission="replicate",
    answers={200: Media(SNAPSHOT_TYPE, "a file of tables")},
    group="replication",
)
async def contents(call: Call) -> web.StreamResponse:
    """The file of one snapshot, for replicas."""
    position = _position(call)
    try:
        snapshot, file = await call.in_pool(lambda: call.node.snapshots.open_file(position))
    except SnapshotFault as fault:
        raise coded("snapshot_not_found", str(fault)) from fault
    with file:
        response = web.StreamResponse()
        response.content_type = SNAPSHOT_TYPE
        response.content_length = snapshot.bytes
        await response.prepare(call.request)
        with suppress(ConnectionError):  # the caller has disconnected
            await _send(response, file, snapshot.bytes)
    return response


async def _send(response: web.StreamResponse, file: BinaryIO, size: int) -> None:
    while size and (part := await asyncio.to_thread(file.read, min(READ_BYTES, size))):
        await response.write(part)
        size -= len(part)
    await response.write_eof()


def _position(call: Call) -> int:
    text = call.segment("position")
    position = position_named(text.zfill(12)) if text.isascii() and text.isdigit() else None
    if position is None:
        raise coded("snapshot_not_found", "no snapshot at this position")
    return position
