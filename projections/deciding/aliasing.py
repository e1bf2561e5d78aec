"""Other names of entities: set, changed, taken back."""

from __future__ import annotations

from eventlog.kinds import AliasSet
from projections import intents as ask
from projections.aliases import standing_alias
from projections.deciding.context import Context, Decision
from projections.intents import Refused
from projections.normalization import is_reserved


def set_alias(intent: ask.SetAlias, context: Context) -> Decision | Refused:
    """The name leads to the entity from here on; nothing where it does so already."""
    context.flush()
    raw, canonical = intent.raw_uri, intent.canonical_uri
    if is_reserved(raw) or is_reserved(canonical):
        message = "the protocol's own records have no other names"
        return Refused("alias_reserved", message, "raw_uri")
    standing = standing_alias(context.db, raw)
    if standing == (canonical, intent.kind):
        return Decision([], created=False)
    if standing is not None and standing[1] == "migration" and intent.kind != "migration":
        return Refused("alias_is_migration", f"{raw} is an alias of a migration")
    if canonical == raw:
        return Refused("alias_cycle", f"{raw} is no other name of itself", "canonical_uri")
    end: str = canonical
    while end != raw:
        further = standing_alias(context.db, end)
        if further is None:
            payload = AliasSet(raw_uri=raw, canonical_uri=canonical, alias_kind=intent.kind)
            return Decision([context.draft(payload)])
        end = further[0]
    return Refused("alias_cycle", f"{canonical} is {raw} under another name", "canonical_uri")


def remove_alias(intent: ask.RemoveAlias, context: Context) -> Decision | Refused:
    """The name means itself again."""
    context.flush()
    standing = standing_alias(context.db, intent.raw_uri)
    if standing is None:
        return Refused("alias_not_found", "alias not found", "raw_uri")
    if standing[1] == "migration" and not intent.migrations:
        return Refused("alias_is_migration", f"{intent.raw_uri} is an alias of a migration")
    return Decision([context.draft(AliasSet(raw_uri=intent.raw_uri))])
