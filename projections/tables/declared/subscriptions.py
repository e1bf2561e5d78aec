"""Subscriptions: who subscribes to what, and how far each was delivered."""

import threading
from pathlib import Path
from typing import Literal

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import SubscriptionSet, WebhooksDelivered
from engramlog.projections.tables.database import (
    BUSY_TIMEOUT_MS,
    query,
    query_one,
    query_value,
    set_pragmas,
)
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.storage_faults import storage_errors
from engramlog.projections.tables.struct_rows import insert_row, rows_as


class SubscriptionsProjector(Projector):
    """``subscriptions``: the active ones, and how far the log says that each was delivered."""

    name = "subscriptions"
    version = 2
    schema = """
    CREATE TABLE subscriptions (
        subscription_id TEXT NOT NULL PRIMARY KEY,
        subscriber TEXT NOT NULL,
        target TEXT NOT NULL,
        target_kind TEXT NOT NULL,
        on_change TEXT NOT NULL,
        delivery_address TEXT NOT NULL,
        event_types TEXT NOT NULL,
        key_id TEXT,
        idempotency_key TEXT,
        created_at INTEGER NOT NULL,
        position INTEGER NOT NULL,
        delivered_to INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """
    late_indexes = "CREATE INDEX subscriptions_by_owner ON subscriptions (subscriber, position);"
    kinds = frozenset({"subscription_set", "webhooks_delivered"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        change = event.payload
        if isinstance(change, WebhooksDelivered):
            db.executemany(
                "UPDATE subscriptions SET delivered_to=max(delivered_to, ?)"
                " WHERE subscription_id=?",
                [(each.position, each.subscription_id) for each in change.progress],
            )
            return
        assert isinstance(change, SubscriptionSet)
        if change.ended:
            db.execute(
                "DELETE FROM subscriptions WHERE subscription_id=?", (change.subscription_id,)
            )
            return
        insert_row(
            db,
            "subscriptions",
            event,
            or_ignore=True,
            created_at=event.received_at,
            delivered_to=event.position,
        )


class SubscriptionRow(Struct, frozen=True):
    """A subscription; ``position`` is its start, ``created_at`` in microseconds. ``delivered_to``:
    as far as the log says; the node that delivers is further."""

    id: str
    subscriber: str
    target: str
    target_kind: Literal["scope", "entity"]
    on_change: Literal["webhook", "wake"]
    delivery_address: str
    event_types: frozenset[str]
    key_id: str | None
    idempotency_key: str | None
    created_at: int
    position: int
    delivered_to: int


_ROWS = "FROM (SELECT *, subscription_id AS id FROM subscriptions) WHERE"
_PUSHED = "delivery_address LIKE 'http://%' OR delivery_address LIKE 'https://%'"


def is_pushed(address: str) -> bool:
    """Whether a subscription posts there: a ``wake`` may name a subscriber that polls."""
    return address.lower().startswith(("http://", "https://"))


def pushed_subscriptions(db: apsw.Connection) -> list[SubscriptionRow]:
    """The subscriptions of all subscribers that post to an address, oldest first."""
    return rows_as(SubscriptionRow, db, f"{_ROWS} {_PUSHED} ORDER BY position")


def subscriptions_of(db: apsw.Connection, subscriber: str) -> list[SubscriptionRow]:
    """A subscriber's subscriptions, oldest first."""
    return rows_as(SubscriptionRow, db, f"{_ROWS} subscriber=? ORDER BY position", (subscriber,))


def subscription_named(
    db: apsw.Connection, subscription_id: str, subscriber: str
) -> SubscriptionRow | None:
    """One of a subscriber's subscriptions."""
    named = (subscription_id, subscriber)
    found = rows_as(SubscriptionRow, db, f"{_ROWS} subscription_id=? AND subscriber=?", named)
    return found[0] if found else None


def count_subscriptions(db: apsw.Connection) -> int:
    return int(query_value(db, "SELECT count(*) FROM subscriptions"))


LEDGER_NAME = "deliveries.db"


class Delivered(Struct, frozen=True):
    """A subscription's progress: everything up to ``position`` was delivered."""

    position: int
    failures: int = 0
    open_until_us: int = 0
    last_at_us: int = 0


class DeliveryLedger:
    """``deliveries.db``: each subscription's progress, so that a restart repeats little and loses
    nothing. Not a projection: it records this node's deliveries; the log has notes of them."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        with storage_errors():
            self._db = apsw.Connection(str(path))
            self._db.set_busy_timeout(BUSY_TIMEOUT_MS)
            set_pragmas(self._db, "journal_mode=WAL", "synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS deliveries (subscription_id TEXT NOT NULL PRIMARY KEY,"
                " position INTEGER NOT NULL, failures INTEGER NOT NULL,"
                " open_until INTEGER NOT NULL, last_at INTEGER NOT NULL) STRICT, WITHOUT ROWID"
            )

    def get(self, subscription_id: str) -> Delivered | None:
        """A subscription's progress; None before the first delivery."""
        with self._lock, storage_errors():
            row = query_one(
                self._db,
                "SELECT position, failures, open_until, last_at FROM deliveries"
                " WHERE subscription_id=?",
                (subscription_id,),
            )
        return None if row is None else Delivered(*row)

    def every(self) -> dict[str, Delivered]:
        """The progress of every subscription with a delivery."""
        with self._lock, storage_errors():
            rows = query(self._db, "SELECT * FROM deliveries")
            return {name: Delivered(*row) for name, *row in rows}

    def put(self, subscription_id: str, delivered: Delivered) -> None:
        """Store a subscription's progress."""
        with self._lock, storage_errors():
            self._db.execute(
                "INSERT OR REPLACE INTO deliveries VALUES (?,?,?,?,?)",
                (subscription_id, delivered.position, delivered.failures, delivered.open_until_us,
                 delivered.last_at_us),
            )  # fmt: skip

    def forget(self, subscription_id: str) -> None:
        """Delete the progress of an ended subscription."""
        with self._lock, storage_errors():
            self._db.execute("DELETE FROM deliveries WHERE subscription_id=?", (subscription_id,))

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._db.close()
