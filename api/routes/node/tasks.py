"""What runs beside requests."""

from __future__ import annotations

from aiohttp import web
from msgspec import to_builtins

from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.task import TaskState
from engramlog.api.schemas.answers import Answer

routes = Routes("node")


class TaskRecord(Answer):
    """A task. ``error``: why its last attempt failed."""

    name: str
    state: TaskState
    error: str | None


class TaskList(Answer):
    """Every task, in the order in which they start."""

    tasks: list[TaskRecord]


@routes.add(
    "GET",
    "/v1/admin/tasks",
    permission="admin",
    summary="What runs beside requests",
    answers={200: TaskList},
)
async def list_tasks(call: Call) -> web.Response:
    """Every task of the node, how it stands, and why its last attempt failed."""
    return answer({"tasks": to_builtins(call.service.tasks.statuses())})
