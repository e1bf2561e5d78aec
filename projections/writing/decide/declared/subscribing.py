"""Subscribing to changes, and ending a subscription."""

import msgspec

from engramlog.eventlog.kinds import SubscriptionSet
from engramlog.projections.tables.database import query_value
from engramlog.projections.tables.struct_rows import rows_as
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_SAME = """
SELECT subscription_id FROM subscriptions WHERE subscriber=? AND key_id IS ? AND idempotency_key=?
"""
_EQUAL = """
SELECT subscription_id FROM subscriptions
WHERE subscriber=? AND key_id IS ? AND target=? AND on_change=? AND delivery_address=?
  AND event_types=?
"""
_COUNT = "SELECT count(*) FROM subscriptions WHERE subscriber=?"
_ENDED = "FROM (SELECT *, 1 AS ended, ? AS reason FROM subscriptions) WHERE subscription_id=?"


def subscribe(command: ask.Subscribe, context: Context) -> Decision | Refused:
    """A new subscription, or the existing one of the same API key with the same idempotency
    key or content: a new API key does not inherit the rights of an old one."""
    made = command.subscription
    types = msgspec.json.encode(made.event_types).decode()
    same = (made.target, made.on_change, made.delivery_address, types)
    # No row has the key NULL.
    caller = (made.subscriber, made.key_id)
    known = query_value(context.db, _SAME, (*caller, made.idempotency_key)) or query_value(
        context.db, _EQUAL, (*caller, *same)
    )
    if known is not None:
        return Decision([], created=False, detail={"id": known})
    count = query_value(context.db, _COUNT, (made.subscriber,))
    if count >= command.most:
        return Refused("too_many_subscriptions", f"there are {count} already; end one first")
    return Decision([context.draft(made)], detail={"id": made.subscription_id})


def unsubscribe(command: ask.Unsubscribe, context: Context) -> Decision | Refused:
    """End a subscription; another subscriber's looks absent."""
    asked = (command.reason, command.subscription_id)
    for ended in rows_as(SubscriptionSet, context.db, _ENDED, asked):
        if command.subscriber in (None, ended.subscriber):
            types = sorted(set(ended.event_types))
            return Decision([context.draft(msgspec.structs.replace(ended, event_types=types))])
    return Refused("subscription_not_found", "no such subscription")
