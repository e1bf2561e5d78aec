"""Intents over HTTP: a POST turns an envelope into facts about the intent, and a GET reads the
envelope from them.

The goal, the sender and the recipients become separate facts (and edges), so that recall and the
graph find them. One more fact holds the envelope for GET.
"""

import asyncio
from typing import Annotated, Any, Literal, cast
from uuid import UUID, uuid4, uuid5

import msgspec
from msgspec import UNSET
from pydantic import Field

from engramlog.api.answers.fact_record import FactRecord, Warned
from engramlog.api.commands.assertions import assertion_of
from engramlog.api.commands.entity_names import entity_named, stored_uri
from engramlog.api.http.bodies import parse_json
from engramlog.api.http.call import Call
from engramlog.api.http.errors import existing, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import AssertRequest, MomentQuery
from engramlog.api.schemas.values import FactValue, Instant, Model, Name
from engramlog.eventlog.kinds import Scope
from engramlog.eventlog.log import Idempotency
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live, saying
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.normalization import normalize_ref

routes = Routes("intents")

ITEMS_MAX = 100
TEXT_LENGTH_MAX = 20_000
_Text = Annotated[str, Field(max_length=TEXT_LENGTH_MAX)]


class Constraint(Model):
    """A hard limit, such as a budget."""

    kind: Name
    limit: FactValue
    unit: _Text | None = None


class Preference(Model):
    """A preference, and its strength."""

    kind: Name
    value: Any = None
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0


class Deference(Model):
    """When to ask someone first; ``timeout_s`` seconds."""

    condition: _Text
    defer_to: Name
    timeout_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Artifact(Model):
    """A work product that is handed over."""

    name: _Text
    ref: _Text


class Handoff(Model):
    """The state of the work."""

    summary: _Text
    fact_refs: list[_Text] = Field(default_factory=list[str], max_length=ITEMS_MAX)
    artifacts: list[Artifact] = Field(default_factory=list[Artifact], max_length=ITEMS_MAX)
    continuation: Any = None


class Escalation(Model):
    """Whom to inform, and how, if the intent cannot succeed."""

    escalate_to: Name
    channel: Literal["stigmem", "email", "slack"] = "stigmem"
    priority: Literal["low", "medium", "high", "critical"] = "medium"
    include_context: bool = True


class IntentRequest(Model, extra="allow"):
    """An envelope. The caller must be allowed to write as ``from``."""

    id: Name | None = None
    from_: Name = Field(alias="from")
    to: list[Name] = Field(min_length=1, max_length=ITEMS_MAX)
    goal: Annotated[str, Field(min_length=1, max_length=2048)]
    scope: Scope = "company"
    expires_at: Instant | None = None
    constraint: list[Constraint] = Field(default_factory=list[Constraint], max_length=ITEMS_MAX)
    preference: list[Preference] = Field(default_factory=list[Preference], max_length=ITEMS_MAX)
    deference: list[Deference] = Field(default_factory=list[Deference], max_length=ITEMS_MAX)
    escalation: Escalation | None = None
    handoff: Handoff | None = None


class IntentRecord(Warned, rename={"from_": "from"}):
    """The envelope as sent, and the facts that hold it."""

    id: str
    from_: str
    to: list[str]
    goal: str
    scope: Scope
    created_at: str
    expires_at: str | None
    constraint: list[dict[str, Any]]
    preference: list[dict[str, Any]]
    deference: list[dict[str, Any]]
    escalation: dict[str, Any] | None
    handoff: dict[str, Any] | None
    fact_ids: list[str]


_OF_KEYS = UUID("5a0c1f0e-6b0d-4a55-9c43-2a1f4c0d7e11")
"""Namespace of the names that repeated requests without one share."""
ENVELOPE = "intent:envelope"
RECIPIENT = "rel:intent-to"
"""``rel:*`` is set-valued, so several recipients do not contradict."""
RELATIONS = frozenset({ENVELOPE, RECIPIENT, "intent:goal", "intent:from"})


@routes.add(
    "POST /v1/intents",
    permission="write",
    status=201,
    headers=("Stigmem-Session", "Idempotency-Key"),
)
async def create_intent(call: Call, request: IntentRequest) -> IntentRecord:
    """State an intent: all of its facts or none."""
    sent = cast("dict[str, Any]", parse_json(await call.raw()))
    key = call.idempotency()
    made = uuid4() if key is None else uuid5(_OF_KEYS, f"{key.actor}\n{key.key}")
    name = entity_named(call, request.id or f"intent:{made}", call.view().position)
    async with call.service.naming.setdefault(name, asyncio.Lock()):
        return await _stated(call, request, sent, name, key)


async def _stated(
    call: Call, request: IntentRequest, sent: dict[str, Any], name: str, key: Idempotency | None
) -> IntentRecord:
    """The intent, under a name that no other request takes meanwhile."""
    envelope = _envelope(request, sent, name)

    def check() -> None:
        view, moment = call.at()
        known = _found(call, view, name, moment)
        if known is not None:
            same = known == _record(envelope, known.created_at, known.fact_ids)
            if key is None or not same:  # else perhaps a retry, whose facts are there
                raise plain("intent_exists")

    await call.in_pool(check)
    assertions = [assertion_of(call, each) for each in _facts(request, name, envelope)]
    written = await call.do_all([each.command for each in assertions], idempotency=key, check=check)
    view, moment = call.at()
    record = await call.in_pool(lambda: _found(call, view, name, moment))
    if record is None:  # the sanitizer withholds it; its writer still gets it
        ids = [str(done.fact_id) for done in written]
        record = _record(envelope, format_instant(moment.instant_us), ids)
    return record


@routes.add("GET /v1/intents/{intent_id:.+}", permission="read", headers=("Stigmem-Session",))
def get_intent(call: Call, query: MomentQuery) -> IntentRecord:
    """An intent that the caller may read."""
    view, moment = call.at(query)
    name = entity_named(call, call.segment("intent_id"), moment.position)
    record = existing(_found(call, view, name, moment), "intent_not_found")
    call.note_read([str(record.scope)])
    return record


def _found(call: Call, view: View, name: str, moment: Moment) -> IntentRecord | None:
    """The newest readable envelope under this name by the source of the first: no other source
    speaks under the name, and each only as itself."""
    rights = call.authorization
    slots = live(view, rights, moment, view.slots_about(name), include_expired=True)
    if not rights.may("read"):  # what was said in one's own name is known
        slots = saying(view, slots, source=rights.own_source)
    records = [
        record
        for record in call.records(view, slots, moment)
        if record.relation in RELATIONS
        and not record.sanitizer_redacted
        and record.sanitizer_stripped is UNSET
    ]
    envelopes = [
        (record, envelope)
        for record in records
        if record.relation == ENVELOPE
        and (envelope := _decoded(record.value.v)) is not None
        and envelope["from"] == record.source
    ]
    if not envelopes:
        return None
    voice = _voice(envelopes[0][0])
    newest, envelope = [each for each in envelopes if _voice(each[0]) == voice][-1]
    own = [each.id for each in records if _voice(each) == voice]
    return _record(envelope, newest.timestamp, own)


def _voice(record: FactRecord) -> tuple[str, str | None]:
    """A source and the peer it came through: a peer's facts in a source's name are another's."""
    return record.source, record.received_from


def _decoded(text: object) -> dict[str, Any] | None:
    """The envelope, unless the fact holds something else."""
    try:
        found = msgspec.json.decode(str(text), type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    return found if set(_FIELDS) <= found.keys() else None


_FIELDS = ("id", "from", "to", "goal", "scope", "expires_at", "constraint", "preference",
           "deference", "escalation", "handoff")  # fmt: skip


def _record(envelope: dict[str, Any], created_at: str, fact_ids: list[str]) -> IntentRecord:
    fields = {name: envelope[name] for name in _FIELDS}
    sender = fields.pop("from")
    return IntentRecord(from_=sender, created_at=created_at, fact_ids=fact_ids, **fields)


def _envelope(request: IntentRequest, sent: dict[str, Any], name: str) -> dict[str, Any]:
    """The envelope that GET answers; limits keep their values as sent."""
    dumped = request.model_dump(include=set(IntentRequest.model_fields), by_alias=True)
    return {
        **{field: dumped[field] for field in _FIELDS},
        "id": name,
        "from": stored_uri(request.from_),
        "to": [stored_uri(each) for each in request.to],
        "constraint": [
            _constraint(each, given["limit"].get("v"))
            for each, given in zip(request.constraint, sent.get("constraint", ()), strict=True)
        ],
    }


def _constraint(given: Constraint, v: object) -> dict[str, Any]:
    limit = {"type": given.limit.type, "v": v, "interpret_as": given.limit.interpret_as}
    return {"kind": given.kind, "limit": limit, "unit": given.unit}


def _facts(request: IntentRequest, name: str, envelope: dict[str, Any]) -> list[AssertRequest]:
    values: list[tuple[str, dict[str, Any]]] = [
        ("intent:goal", {"type": "text", "v": request.goal}),
        ("intent:from", _ref(envelope["from"])),
        *((RECIPIENT, _ref(each)) for each in dict.fromkeys(envelope["to"])),
        (ENVELOPE, {"type": "text", "v": msgspec.json.encode(envelope).decode()}),
    ]
    return [
        AssertRequest.model_validate(
            {
                "entity": name,
                "relation": relation,
                "value": value,
                "source": request.from_,
                "scope": request.scope,
                "valid_until": request.expires_at,
            }
        )
        for relation, value in values
    ]


def _ref(name: str) -> dict[str, str]:
    """An edge if the name is a URI, else the name itself."""
    try:
        return {"type": "ref", "v": normalize_ref(name)}
    except ValueError:
        return {"type": "string", "v": name}
