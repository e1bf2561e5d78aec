"""Other names of entities, and which entity a name means (wire 2.2)."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.bodies import answer
from api.call import Call, ignored, warned
from api.commands.naming import entity_named, stored_uri
from api.errors import coded
from api.schemas.aliases import AliasesQuery, AliasRequest, ResolveQuery
from projections.aliases import AliasRow
from projections.intents import RemoveAlias, SetAlias
from projections.likeness import entities_seen, names_like
from projections.moment import format_instant
from projections.normalization import SCOPES
from projections.selection import live


async def set_alias(call: Call) -> web.Response:
    """Give an entity another name: from here on the name means the entity."""
    request = await call.body(AliasRequest)
    _check_rights(call)
    if request.kind == "migration" and not call.authorization.may("admin"):
        raise coded("alias_is_migration", "aliases of a migration are set by admins")
    raw, canonical = stored_uri(request.raw_uri), stored_uri(request.canonical_uri)
    await call.do(SetAlias(raw_uri=raw, canonical_uri=canonical, kind=request.kind))
    row = call.node.reader.aliases.get(raw, call.view().position)
    if row is None:  # taken back by somebody else in this very moment
        raise coded("alias_not_found", "alias not found")
    warnings = ignored(request) + await call.in_pool(lambda: _left_behind(call, raw))
    return answer(_wire(row) | ({"warnings": warnings} if warnings else {}), 201)


def _left_behind(call: Call, raw: str) -> list[str]:
    """A warning of facts that stand under the name and are no longer found by it."""
    view = call.view()
    number = view.entities.number(raw)
    if number is None:
        return []
    slots = live(view, call.authorization, call.moment(view), view.entity_slots(number))
    if not len(slots):
        return []
    return [f"{len(slots)} facts stand under {raw!r}; asking for that name no longer finds them"]


async def list_aliases(call: Call) -> web.Response:
    """Aliases by name."""
    query = call.query(AliasesQuery)
    view = call.view()
    moment = call.moment(view, query)
    gone = view.hiding.covers_everywhere

    def shown(row: AliasRow) -> bool:
        return not gone(row.raw_uri) and not gone(row.canonical_uri)

    rows = call.node.reader.aliases.list(moment.position, query.after, query.limit, shown)
    return answer([_wire(row) for row in rows])


async def delete_alias(call: Call) -> web.Response:
    """Take an alias back: the name means itself again."""
    _check_rights(call)
    raw = stored_uri(call.segment("raw_uri"))
    await call.do(RemoveAlias(raw_uri=raw, migrations=call.authorization.may("admin")))
    return web.Response(status=204)


async def resolve_entity(call: Call) -> web.Response:
    """Which entity a name means: itself, by an alias, or perhaps one with a name like it."""
    query = call.query(ResolveQuery)
    return answer(warned(await call.in_pool(lambda: _resolved(call, query)), query))


def _resolved(call: Call, query: ResolveQuery) -> dict[str, Any]:
    view = call.view()
    moment = call.moment(view, query)
    name = stored_uri(query.uri)
    canonical = entity_named(call, query.uri, moment.position)
    seen = entities_seen(view, call.authorization, moment)
    number = view.entities.number(name)
    known = number is not None and number in seen
    like = names_like(
        canonical,
        view.entities,
        seen,
        call.node.reader.signatures.of(view.entities),
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
    return {
        "query": query.uri,
        "canonical": canonical,
        "best": best,
        "resolution_layer": layer,
        "layer1_match": known,
        "layer2_match": alias,
        "layer3_candidates": [{"uri": each.entity, "score": each.score} for each in like],
    }


def _check_rights(call: Call) -> None:
    """An alias holds in every scope: the caller's key must cover them all."""
    beyond = set(SCOPES) - call.authorization.scopes
    if beyond:
        raise coded("scope_forbidden", f"this key does not cover scopes {sorted(beyond)}")


def _wire(row: AliasRow) -> dict[str, Any]:
    return {
        "raw_uri": row.raw_uri,
        "canonical_uri": row.canonical_uri,
        "kind": row.kind,
        "created_at": format_instant(row.set_at),
    }
