"""Snapshots of the tables: take, list, verify, remove, and send to replicas."""

import asyncio
from contextlib import suppress
from typing import BinaryIO

from aiohttp import web
from msgspec import Struct

from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.node.tasks.jobs import SnapshotJob
from engramlog.api.node.tasks.snapshots import SnapshotList
from engramlog.api.schemas.snapshots import SnapshotBody, VerifyBody
from engramlog.replay.snapshot import READ_BYTES, SnapshotFault, encode_snapshot, position_named

routes = Routes("node")


class SnapshotRemoved(Struct):
    """The removed snapshot."""

    removed: int


SNAPSHOT_TYPE = "application/vnd.engramlog.snapshot"


@routes.add(
    "POST /v1/admin/snapshots",
    permission="admin",
    summary="Take a snapshot of the tables",
    body=SnapshotBody,
    body_required=False,
    answers={202: SnapshotJob},
    errors=(409,),
)
async def take(call: Call) -> web.Response:
    """Take a snapshot in the background; ``job`` of the list shows its progress."""
    body = await call.body_if_any(SnapshotBody)
    call.service.snapshots.take(body.position)
    return answer(call.service.snapshots.job.record(), 202)


@routes.add(
    "GET /v1/admin/snapshots",
    permission="admin",
    summary="Snapshots of the tables",
    answers={200: SnapshotList},
)
async def list_all(call: Call) -> web.Response:
    """Every snapshot, and the progress of the current job."""
    return answer(await call.in_pool(call.service.snapshots.records))


@routes.add(
    "POST /v1/admin/snapshots/verify",
    permission="admin",
    summary="Read every row of snapshots",
    body=VerifyBody,
    body_required=False,
    answers={202: SnapshotJob},
    errors=(404, 409),
)
async def verify(call: Call) -> web.Response:
    """Read every row of one or all snapshots in the background."""
    body = await call.body_if_any(VerifyBody)
    call.service.snapshots.verify(body.position, replay=body.replay)
    return answer(call.service.snapshots.job.record(), 202)


@routes.add(
    "DELETE /v1/admin/snapshots/{position}",
    permission="admin",
    summary="Remove a snapshot",
    answers={200: SnapshotRemoved},
)
async def remove(call: Call) -> web.Response:
    """Remove a snapshot."""
    position = _position(call)
    try:
        await asyncio.to_thread(call.node.snapshots.remove, position)
    except SnapshotFault as fault:
        raise coded("snapshot_not_found", str(fault)) from fault
    return answer(SnapshotRemoved(position))


@routes.add(
    "GET /v1/replication/snapshots",
    permission="replicate",
    summary="Snapshots, for new replicas",
    answers={200: Media("application/x-ndjson", "one document a line, newest first")},
    group="replication",
)
async def documents(call: Call) -> web.Response:
    """The documents of all snapshots, newest first, for replicas."""
    found, _ = await call.in_pool(call.node.snapshots.all)
    body = b"".join(encode_snapshot(each) for each in found)
    return web.Response(body=body, content_type="application/x-ndjson")


@routes.add(
    "GET /v1/replication/snapshots/{position}",
    permission="replicate",
    summary="The file of a snapshot",
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
        with suppress(ConnectionResetError):  # the caller has disconnected
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
