"""Subscribing to changes, and ending a subscription."""

from __future__ import annotations

from eventlog.kinds import SubscriptionSet
from projections import intents as ask
from projections.database import query_one
from projections.deciding.context import Context, Decision
from projections.intents import Refused
from projections.subscriptions import load_subscriptions

_SAME = "SELECT subscription_id FROM subscriptions WHERE subscriber=? AND idempotency_key=?"
_COUNT = "SELECT count(*) FROM subscriptions WHERE subscriber=?"


def subscribe(intent: ask.Subscribe, context: Context) -> Decision | Refused:
    """A new subscription, or the one that was made with the same idempotency key."""
    if intent.idempotency_key is not None:
        known = query_one(context.db, _SAME, (intent.subscriber, intent.idempotency_key))
        if known is not None:
            return Decision([], created=False, detail={"id": known[0]})
    (count,) = query_one(context.db, _COUNT, (intent.subscriber,)) or (0,)
    if count >= intent.most:
        return Refused("too_many_subscriptions", f"there are {count} already; end one first")
    made = SubscriptionSet(
        subscription_id=intent.subscription_id,
        subscriber=intent.subscriber,
        target=intent.target,
        target_kind=intent.target_kind,
        on_change=intent.on_change,
        delivery_address=intent.delivery_address,
        event_types=list(intent.event_types),
        key_id=intent.key_id,
        idempotency_key=intent.idempotency_key,
    )
    return Decision([context.draft(made)], detail={"id": intent.subscription_id})


def unsubscribe(intent: ask.Unsubscribe, context: Context) -> Decision | Refused:
    """End a subscription; of another subscriber it is as if there were none."""
    for row in load_subscriptions(context.db):
        if row.id == intent.subscription_id and intent.subscriber in (None, row.subscriber):
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
                reason=intent.reason,
            )
            return Decision([context.draft(ended)])
    return Refused("subscription_not_found", "no such subscription")
