"""What a node that holds only some scopes of a shared log may decide.

A decision reads the tables and the image, which lack the other scopes. A command about those, or
one that needs all scopes, goes to a node that holds all. Most rights and declarations lie outside
scopes, so every node decides them.
"""

from collections.abc import Collection, Sequence

from engramlog.eventlog import kinds
from engramlog.eventlog.event import Draft
from engramlog.eventlog.held_scopes import EVERY_SCOPE, is_held
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing import memory_commands, peer_commands
from engramlog.projections.writing.commands import Command, Refused

NEED_EVERY_SCOPE = (
    ask.EraseFacts,
    ask.EraseEvents,
    kinds.FactErased,
    kinds.ErasureCertified,
    kinds.LegalHoldSet,
    peer_commands.AdoptPage,
    peer_commands.TakeForeignEnds,
    peer_commands.NoteEquivocation,
    peer_commands.ReceiveForeign,
)


def not_held(held: frozenset[str], command: Command) -> Refused | None:
    """Why a node that holds ``held`` may not decide a command; None if it may."""
    if held == EVERY_SCOPE:
        return None
    if isinstance(command, ask.OnBehalf):
        return not_held(held, command.command)
    if isinstance(command, NEED_EVERY_SCOPE):
        return _refusal(held, "this")
    others = sorted(set(_scopes(command)) - held)
    return _refusal(held, f"scope {others[0]!r}") if others else None


def drafts_not_held(held: frozenset[str], drafts: Sequence[Draft]) -> Refused | None:
    """Same as ``not_held``, for the drafts of a decision."""
    if held == EVERY_SCOPE:
        return None
    for draft in drafts:
        if not is_held(held, draft.partition, kinds.kind_of(draft.payload), draft.payload):
            return _refusal(held, f"events in {draft.partition}")
    return None


def _scopes(command: Command) -> Collection[str]:
    if isinstance(command, memory_commands.Consolidate):
        return (command.apply.scope,)
    if isinstance(command, ask.SweepDecay | kinds.TombstoneSet):
        return command.scopes
    if isinstance(command, ask.AssertFact):
        return (command.fact.scope,)
    scope = getattr(command, "scope", None)
    return (scope,) if scope in EVERY_SCOPE else ()


def _refusal(held: frozenset[str], what: str) -> Refused:
    return Refused("scope_not_held", scope_not_held(held, what))


def scope_not_held(held: frozenset[str], what: str) -> str:
    """The message of the refusal."""
    own = ", ".join(sorted(held))
    return f"this node holds the scopes {own} of its log; ask one that holds all for {what}"
