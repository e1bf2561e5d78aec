"""Subscribing to changes, and ending a subscription."""

import msgspec

from engramlog.eventlog.kinds import SubscriptionSet
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.declared.subscriptions import load_subscriptions
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_SAME = "SELECT subscription_id FROM subscriptions WHERE subscriber=? AND idempotency_key=?"
_EQUAL = """
SELECT subscription_id FROM subscriptions
WHERE subscriber=? AND key_id IS ? AND target=? AND on_change=? AND delivery_address=?
  AND event_types=?
"""
_COUNT = "SELECT count(*) FROM subscriptions WHERE subscriber=?"


def subscribe(command: ask.Subscribe, context: Context) -> Decision | Refused:
    """A new subscription, or the existing one with the same idempotency key or content."""
    made = command.subscription
    if made.idempotency_key is not None:
        known = query_one(context.db, _SAME, (made.subscriber, made.idempotency_key))
        if known is not None:
            return Decision([], created=False, detail={"id": known[0]})
    types = msgspec.json.encode(made.event_types).decode()
    same = (made.target, made.on_change, made.delivery_address, types)
    known = query_one(context.db, _EQUAL, (made.subscriber, made.key_id, *same))
    if known is not None:
        return Decision([], created=False, detail={"id": known[0]})
    (count,) = query_one(context.db, _COUNT, (made.subscriber,)) or (0,)
    if count >= command.most:
        return Refused("too_many_subscriptions", f"there are {count} already; end one first")
    return Decision([context.draft(made)], detail={"id": made.subscription_id})


def unsubscribe(command: ask.Unsubscribe, context: Context) -> Decision | Refused:
    """End a subscription; another subscriber's looks absent."""
    for row in load_subscriptions(context.db):
        if row.id == command.subscription_id and command.subscriber in (None, row.subscriber):
            ended = SubscriptionSet(
                subscription_id=row.id,
                subscriber=row.subscriber,
                target=row.target,
                target_kind="scope" if row.target_kind == "scope" else "entity",
                on_change="webhook" if row.on_change == "webhook" else "wake",
                delivery_address=row.delivery_address,
                event_types=sorted(row.event_types),
                key_id=row.key_id,
                idempotency_key=row.idempotency_key,
                ended=True,
                reason=command.reason,
            )
            return Decision([context.draft(ended)])
    return Refused("subscription_not_found", "no such subscription")
