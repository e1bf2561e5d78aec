"""Decay policies, sweeps, and the relations that may hold several values."""

from typing import Any

import numpy as np
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace
from pydantic import TypeAdapter, ValidationError

from engramlog.api.answers.fact_record import Warned
from engramlog.api.commands.assertions import check_ends_everything
from engramlog.api.commands.decay_sweep import policy_of_request, reach_of
from engramlog.api.commands.garden_access import swept_gardens
from engramlog.api.http.bodies import parse_json, validated
from engramlog.api.http.call import Call, warned
from engramlog.api.http.errors import entry, invalid, plain, unprocessable
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks.jobs import JobAccepted, JobRecord
from engramlog.api.schemas.facts import PolicyId, PolicyRequest, SetValuedRequest, SweepRequest
from engramlog.eventlog.kinds import DecayPolicy, PolicySet, SetValuedDeclared
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.policies import (
    ALWAYS_SET_VALUED,
    decay_policies,
    set_valued_relations,
)
from engramlog.projections.writing.commands import SweepDecay

routes = Routes("decay")


class Policies(Struct):
    """Every decay policy in force."""

    policies: list[DecayPolicy]


class Swept(Warned):
    """``decayed``: facts that the sweep ended or weakened. ``would_decay``: only in dry runs."""

    scanned: int
    decayed: int
    dry_run: bool
    would_decay: int | UnsetType = UNSET


class SweepJob(JobRecord):
    """A sweep that became a job."""

    result: Swept | UnsetType = UNSET


class SetValued(Struct):
    """``built_in`` relations are always set-valued."""

    relations: list[str]
    built_in: tuple[str, ...] = ALWAYS_SET_VALUED


_check_id = TypeAdapter(PolicyId).validate_python


@routes.add("GET /v1/decay/policies", permission="read", answers={200: Policies})
async def list_policies(call: Call) -> dict[str, Any]:
    """Every decay policy in force."""
    return {"policies": [asdict(policy) for policy in _policies(call)]}


@routes.add("GET /v1/decay/policies/{policy_id}", permission="read", answers={200: DecayPolicy})
async def get_policy(call: Call) -> dict[str, Any]:
    """One decay policy."""
    return asdict(_named(call, call.segment("policy_id")))


@routes.add("PUT /v1/decay/policies/{policy_id}", permission="write", answers={200: DecayPolicy})
async def put_policy(call: Call, request: PolicyRequest) -> dict[str, Any]:
    """Set a decay policy. It acts at the next sweep."""
    policy_id = call.segment("policy_id")
    try:
        _check_id(policy_id)
    except ValidationError as fault:
        message = "must be letters, digits and ._:- and start with a letter or digit"
        raise invalid("policy_id", ["path", "policy_id"], message, policy_id) from fault
    _check_reach(call, request.scope)
    policy = DecayPolicy(id=policy_id, **request.model_dump())
    await call.do(PolicySet(policy_id=policy_id, policy=policy))
    return asdict(policy)


@routes.add("DELETE /v1/decay/policies/{policy_id}", permission="write", status=204)
async def delete_policy(call: Call) -> None:
    """Remove a decay policy. Past sweeps keep their effect."""
    policy_id = call.segment("policy_id")
    _check_reach(call, _named(call, policy_id).scope)
    await call.do(PolicySet(policy_id=policy_id, policy=None))


@routes.add(
    "POST /v1/decay/sweep",
    permission="write",
    body=SweepRequest,
    body_required=False,
    query=SweepRequest,
    answers={200: Swept, 202: JobAccepted},
)
async def sweep(call: Call) -> web.Response:
    """Run decay now, by the stored policies or by the given limits."""
    request = await _sweep_request(call)
    rights = call.narrowed(request.scope)
    if request.scope is not None:
        call.check_scope(request.scope)
    gardens = swept_gardens(call)
    rights = replace(rights, gardens=frozenset(gardens))
    readable = rights.reading()
    ending = rights.withholding(0)  # also what the sanitizer withholds, and needs no right to read
    own = policy_of_request(request.ttl_seconds, request.min_confidence)
    if own is not None and not request.dry_run:
        check_ends_everything(call)
    policies = tuple(_policies(call)) if own is None else (own,)
    view = call.view()

    async def work() -> Swept:
        moment = call.moment(view)
        reach = await call.in_long_pool(
            lambda: reach_of(view, readable, moment, policies), admitted=True
        )
        if not request.dry_run and await call.in_long_pool(
            lambda: reach_of(view, ending, moment, policies).decayed > 0, admitted=True
        ):
            scopes = tuple(scope for scope in SCOPES if scope in rights.scopes)
            await call.do(SweepDecay(scopes=scopes, policies=policies, gardens=gardens))
        body = Swept(reach.scanned, reach.decayed, request.dry_run)
        if request.dry_run:
            body.decayed, body.would_decay = 0, reach.decayed
        return warned(body, request)

    facts = int(np.count_nonzero(readable.mask(view)))
    return await call.perhaps_later("decay", facts, work)


async def _sweep_request(call: Call) -> SweepRequest:
    """The query string, overridden by the JSON body, if any."""
    data = await call.raw()
    given = call.query(SweepRequest).model_dump(exclude_unset=True)
    if data.strip():
        body = validated(SweepRequest, parse_json(data), "body")
        given |= body.model_dump(exclude_unset=True)
    return validated(SweepRequest, given, "body")


@routes.add("GET /v1/decay/jobs/{job_id}", permission="read", answers={200: SweepJob})
async def sweep_job(call: Call) -> JobRecord:
    """A sweep that became a job."""
    return call.job("decay")


@routes.add("GET /v1/relations/set-valued", permission="read")
async def get_set_valued(call: Call) -> SetValued:
    """Relations that may have several values at once."""
    return SetValued(call.node.reader.ask(set_valued_relations, call.view().position))


@routes.add("PUT /v1/relations/set-valued", permission="write")
async def put_set_valued(call: Call, request: SetValuedRequest) -> SetValued:
    """Replace the list of set-valued relations."""
    _check_reach(call, "*")
    bad = [
        entry("relation_label", ["body", "relations", n], "'*' may only end a label", label)
        for n, label in enumerate(request.relations)
        if "*" in label[:-1] or " " in label
    ]
    if bad:
        raise unprocessable(bad)
    await call.do(SetValuedDeclared(relations=[*request.relations]))
    return SetValued(sorted(set(request.relations)))


def _policies(call: Call) -> list[DecayPolicy]:
    return call.node.reader.ask(decay_policies, call.view().position)


def _named(call: Call, policy_id: str) -> DecayPolicy:
    for policy in _policies(call):
        if policy.id == policy_id:
            return policy
    raise plain("policy_not_found")


def _check_reach(call: Call, scope: str) -> None:
    """A policy acts on whole scopes and all sources, so the caller's key must cover them."""
    check_ends_everything(call)
    call.check_scopes(SCOPES if scope == "*" else (scope,))
