"""Jobs of sweeps and lint: how far they are, and what came of them (wire 2.2)."""

from __future__ import annotations

from aiohttp import web

from api.bodies import answer
from api.call import Call
from api.errors import plain


async def sweep_job(call: Call) -> web.Response:
    """A sweep that became a job."""
    return _told(call, "decay")


async def lint_job(call: Call) -> web.Response:
    """A lint that became a job."""
    return _told(call, "lint")


def _told(call: Call, kind: str) -> web.Response:
    job = call.service.jobs.get(call.segment("job_id"), kind, call.credential())
    if job is None:
        raise plain("job_not_found")
    return answer(job.wire())
