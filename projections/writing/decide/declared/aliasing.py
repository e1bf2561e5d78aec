"""Other names of entities: set, changed, removed."""

from engramlog.eventlog.kinds import AliasSet
from engramlog.projections.normalization import is_reserved
from engramlog.projections.tables.declared.aliases import live_alias
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision


def set_alias(command: AliasSet, context: Context) -> Decision | Refused:
    """Set an alias, or remove it (null). Only ``alias_kind`` migration changes or removes an alias
    of that kind."""
    raw, canonical = command.raw_uri, command.canonical_uri
    if canonical is None:
        return _remove(command, context)
    if is_reserved(raw) or is_reserved(canonical):
        message = "the protocol's own records have no other names"
        return Refused("alias_reserved", message, "raw_uri")
    standing = live_alias(context.db, raw)
    if standing == (canonical, command.alias_kind):
        return Decision([], created=False)
    if standing is not None and standing[1] == "migration" and command.alias_kind != "migration":
        return Refused("alias_is_migration", f"{raw} is an alias of a migration")
    if canonical == raw:
        return Refused("alias_cycle", f"{raw} is no other name of itself", "canonical_uri")
    end: str = canonical
    while end != raw:
        further = live_alias(context.db, end)
        if further is None:
            return Decision([context.draft(command)])
        end = further[0]
    return Refused("alias_cycle", f"{canonical} is {raw} under another name", "canonical_uri")


def _remove(command: AliasSet, context: Context) -> Decision | Refused:
    standing = live_alias(context.db, command.raw_uri)
    if standing is None:
        return Refused("alias_not_found", "alias not found", "raw_uri")
    if standing[1] == "migration" and command.alias_kind != "migration":
        return Refused("alias_is_migration", f"{command.raw_uri} is an alias of a migration")
    return Decision([context.draft(AliasSet(raw_uri=command.raw_uri))])
