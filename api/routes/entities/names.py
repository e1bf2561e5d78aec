"""Other names of entities, and which entity a name means (wire 2.2)."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct
from pydantic import Field

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.assertions import check_ends_everything
from engramlog.api.commands.entity_names import entity_named, stored_uri
from engramlog.api.http.call import Call, ignored
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Model, QueryShare, Uri
from engramlog.eventlog.kinds import AliasSet
from engramlog.projections.graph.name_similarity import entities_seen, names_like
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import format_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.aliases import AliasRow

routes = Routes("names")

ALIAS_KINDS = ("migration", "user")
ALIASES_PAGE_MAX = 10_000


class AliasRequest(Model, extra="allow"):
    """Another name of an entity. Only admins may set or remove the ``kind`` ``migration``."""

    raw_uri: Uri
    canonical_uri: Uri
    kind: Literal["user", "migration"] = "user"


class AliasRecord(Warned):
    """An alias. ``warnings``: only in answers to POST that have any."""

    raw_uri: str
    canonical_uri: str
    kind: Literal["user", "migration"]
    created_at: str


class AliasesQuery(MomentQuery):
    """Aliases by name, after ``after``: all, or those of one ``kind`` or entity."""

    kind: str | None = None
    canonical_uri: Annotated[str | None, Field(min_length=1, max_length=NAME_LENGTH_MAX)] = None
    after: str = Field(default="", max_length=NAME_LENGTH_MAX)
    limit: int = Field(default=1000, ge=1, le=ALIASES_PAGE_MAX)


class ResolveQuery(MomentQuery):
    """A name, and how similar other names must be to appear."""

    uri: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)]
    top_k: int = Field(default=5, ge=0, le=50)
    threshold: QueryShare = 0.5


class LikeName(Struct):
    """An entity with a similar name; ``score`` from 0 to 1."""

    uri: str
    score: float


class ResolvedName(Warned):
    """``canonical``: the entity that the name means; ``best``: the best guess.
    Layers: 1 the name itself, 2 its alias, 3 similar names."""

    query: str
    canonical: str
    best: str
    resolution_layer: Literal[1, 2, 3] | None
    layer1_match: bool
    layer2_match: str | None
    layer3_candidates: list[LikeName]


@routes.add("POST /v1/aliases", permission="write", status=201, errors=(404,))
async def set_alias(call: Call, request: AliasRequest) -> AliasRecord:
    """Give an entity another name: from here on the name means the entity."""
    _check_rights(call)
    if request.kind == "migration" and not call.authorization.may("admin"):
        raise coded("alias_is_migration", "only admins set aliases of kind migration")
    raw, canonical = stored_uri(request.raw_uri), stored_uri(request.canonical_uri)
    if raw == canonical:
        raise ApiError(400, "raw_uri and canonical_uri must differ")
    await call.do(AliasSet(raw_uri=raw, canonical_uri=canonical, alias_kind=request.kind))
    row = call.node.reader.aliases.get(raw, call.view().position)
    if row is None:  # another request has removed it meanwhile
        raise coded("alias_not_found", "alias not found")
    warnings = ignored(request) + await call.in_pool(lambda: _hidden_facts_warning(call, raw))
    return _wire(row, warnings)


def _hidden_facts_warning(call: Call, raw: str) -> list[str]:
    """A warning about facts stored under the name, which lookups by the name no longer find."""
    view = call.view()
    slots = live(view, call.authorization, call.moment(view), view.slots_about(raw))
    if not len(slots):
        return []
    return [f"{len(slots)} facts are under {raw!r}; asking for that name no longer finds them"]


@routes.add("GET /v1/aliases", permission="read")
async def list_aliases(call: Call, query: AliasesQuery) -> list[AliasRecord]:
    """Aliases by name."""
    if query.kind not in (None, *ALIAS_KINDS):
        raise ApiError(400, f"kind must be one of {sorted(ALIAS_KINDS)}")
    wanted = None if query.canonical_uri is None else stored_uri(query.canonical_uri)
    view, moment = call.at(query)
    gone = view.hiding.covers_everywhere

    def shown(row: AliasRow) -> bool:
        return (
            query.kind in (None, row.kind)
            and wanted in (None, row.canonical_uri)
            and not gone(row.raw_uri)
            and not gone(row.canonical_uri)
        )

    rows = call.node.reader.aliases.list(moment.position, query.after, query.limit, shown)
    return [_wire(row) for row in rows]


@routes.add("DELETE /v1/aliases/{raw_uri:.+}", permission="write", status=204, errors=(400,))
async def delete_alias(call: Call) -> None:
    """Remove an alias: the name means itself again."""
    _check_rights(call)
    raw = stored_uri(call.segment("raw_uri"))
    kind = "migration" if call.authorization.may("admin") else "user"
    await call.do(AliasSet(raw_uri=raw, alias_kind=kind))


@routes.add("GET /v1/entities/resolve", permission="read")
def resolve_entity(call: Call, query: ResolveQuery) -> ResolvedName:
    """The entity that a name means: itself, through an alias, or perhaps one with a similar
    name."""
    view, moment = call.at(query)
    name = stored_uri(query.uri)
    canonical = entity_named(call, query.uri, moment.position)
    seen = entities_seen(view, call.authorization, moment)
    number = view.entities.number(name)
    known = number is not None and number in seen
    like = names_like(
        canonical,
        view.entities,
        seen,
        call.node.reader.image.name_signatures.of(view.entities),
        threshold=query.threshold,
        limit=query.top_k,
    )
    alias = canonical if canonical != name else None
    if alias is not None:
        layer, best = 2, alias
    elif known:
        layer, best = 1, name
    else:
        layer, best = (3, like[0].entity) if like else (None, canonical)
    return ResolvedName(
        query=query.uri,
        canonical=canonical,
        best=best,
        resolution_layer=layer,
        layer1_match=known,
        layer2_match=alias,
        layer3_candidates=[LikeName(each.entity, each.score) for each in like],
    )


def _check_rights(call: Call) -> None:
    """An alias holds in every scope, and hides the facts under the name. The caller's key must
    cover all scopes and every source."""
    check_ends_everything(call)
    call.check_scopes(SCOPES)


def _wire(row: AliasRow, warnings: list[str] | None = None) -> AliasRecord:
    created_at = format_instant(row.set_at)
    return shaped(row, AliasRecord, created_at=created_at, warnings=warnings or UNSET)
