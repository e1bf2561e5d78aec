"""Background tasks."""

from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.task import TaskStatus

routes = Routes("node")


class TaskList(Struct):
    """Every task, in start order."""

    tasks: list[TaskStatus]


@routes.add("GET /v1/admin/tasks", permission="admin")
async def list_tasks(call: Call) -> TaskList:
    """Every task of the node, its state, and why its last attempt failed."""
    return TaskList(call.service.tasks.statuses())
