"""Trust in sources over HTTP: settings, computed trust, and the formula's parameters."""

from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.call import Call, warned
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.rights import Mode, TrustPolicyRequest, TrustQuery, TrustRequest
from engramlog.eventlog.kinds import SourceTrustSet, TrustPolicy, TrustPolicySet
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import Moment
from engramlog.projections.tables.declared.trust import (
    TrustSetting,
    trust_policy,
    trust_setting,
    trust_settings,
)

routes = Routes("trust")

_KIND = "trust"


class TrustRecord(Struct):
    """``origin``: ``set`` by an operator, full because the source has a ``key``, or by the
    ``formula`` per fact (``fact_trust``: least and greatest)."""

    source: str
    trust: float | None
    origin: Literal["set", "key", "formula"]
    reason: str = ""
    set_by: str | None = None
    set_at: str | None = None
    position: int | None = None
    fact_trust: dict[str, float] | None = None


class TrustPage(Warned):
    """Trust in sources, by name."""

    sources: list[TrustRecord]
    mode: Mode
    cursor: str | None = None


@routes.add("GET /v1/trust/sources", permission="admin")
def list_sources(call: Call, query: TrustQuery) -> TrustPage:
    """The operators' settings of trust, or one source's trust and its origin."""
    walk = call.walk(_KIND, query, call.moment(call.view(), query))
    moment = walk.moment()
    if query.source is not None:
        one = _one(call, stored_uri(query.source), moment)
        return TrustPage([one], _mode(call, moment))
    after = str(walk.place[0]) if walk.place else ""
    found = call.node.reader.ask(trust_settings, moment.position, after, query.limit + 1)
    shown, cursor = call.page(walk, found, query.limit, lambda each: (each.source,))
    return TrustPage([_setting(each) for each in shown], _mode(call, moment), cursor)


@routes.add("PUT /v1/trust/sources", permission="admin")
async def put_source(call: Call, request: TrustRequest) -> TrustRecord:
    """Set the trust in a source. Earlier moments keep theirs."""
    source = stored_uri(request.source)
    await call.do(SourceTrustSet(source=source, trust=request.trust, reason=request.reason))
    view = call.view()
    return _one(call, source, call.moment(view))


@routes.add("GET /v1/trust/policy", permission="admin", answers={200: TrustPolicy})
async def get_policy(call: Call, query: MomentQuery) -> dict[str, Any]:
    """The formula's parameters, for sources without a setting."""
    moment = call.moment(call.view(), query)
    return warned(asdict(call.node.reader.ask(trust_policy, moment.position)), query)


@routes.add(
    "PUT /v1/trust/policy",
    permission="admin",
    body=TrustPolicyRequest,
    answers={200: TrustPolicy},
)
async def put_policy(call: Call) -> dict[str, Any]:
    """Replace the parameters; omitted ones take their defaults."""
    request = await call.body(TrustPolicyRequest)
    policy = TrustPolicy(**request.model_dump())
    await call.do(TrustPolicySet(policy=policy))
    return asdict(policy)


def _one(call: Call, source: str, moment: Moment) -> TrustRecord:
    """A source's setting, or the origin of its trust without one."""
    setting = call.node.reader.ask(trust_setting, source, moment.position)
    if setting is not None:
        return _setting(setting)
    holds_key = call.node.reader.image.trust.keyed(source, moment.position + 1)
    return TrustRecord(
        source=source,
        trust=1.0 if holds_key or _mode(call, moment) == "off" else None,
        origin="key" if holds_key else "formula",
        fact_trust=_fact_trust(call, source, moment),
    )


def _fact_trust(call: Call, source: str, moment: Moment) -> dict[str, float] | None:
    """The least and the greatest trust in this source's visible facts; None without any."""
    view = call.view()
    number = view.sources.number(source)
    if number is None:
        return None
    slots = np.flatnonzero(view.source == number).astype(np.int32)
    slots = known(view, call.authorization, moment, slots)
    if not len(slots):
        return None
    trust = view.trust(slots, moment)
    return {"least": float(trust.min()), "greatest": float(trust.max())}


def _mode(call: Call, moment: Moment) -> Mode:
    return call.node.reader.ask(trust_policy, moment.position).mode


def _setting(setting: TrustSetting) -> TrustRecord:
    return shaped(setting, TrustRecord, origin="set", set_by=setting.actor)
