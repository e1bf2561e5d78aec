"""Which webhooks have something to read: the log is read once for all, and each waits until an
event touches its target. So a write costs the same however many webhooks it does not concern.
"""

import asyncio

from msgspec import Struct

from engramlog.api.answers.subscription_messages import PAGE_EVENTS
from engramlog.api.node.node import Node
from engramlog.projections.audit.subscription_events import facts_touched
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.subscriptions import SubscriptionRow

Touched = dict[str, int]
"""The last event that touched each target."""
EVERY = ""
"""Stands for all targets."""


class _Watched(Struct, eq=False):
    target: str
    since: int
    """Earlier events, its subscription must read itself."""
    woken: asyncio.Event
    touched: int = 0


class TouchedTargets:
    """Used in the event loop alone. ``position``: the log was read so far."""

    def __init__(self, position: int) -> None:
        self.position = position
        self._watched: dict[str, _Watched] = {}

    def watch(self, row: SubscriptionRow) -> None:
        """Watch a subscription's target from here on."""
        if row.id not in self._watched:
            self._watched[row.id] = _Watched(row.target, self.position, asyncio.Event())

    def forget(self, subscription_id: str) -> None:
        self._watched.pop(subscription_id, None)

    def note(self, touched: Touched, position: int) -> None:
        """Take what the events up to ``position`` touch."""
        self.position = position
        for each in self._watched.values():
            last = max(touched.get(each.target, 0), touched.get(EVERY, 0))
            if last:
                each.touched = last
                each.woken.set()

    def passed(self, subscription_id: str, position: int) -> int:
        """How far a subscription has come that read up to ``position``: what does not touch its
        target, it need not read."""
        watched = self._watched.get(subscription_id)
        clear = watched is not None and watched.since <= position and watched.touched <= position
        return max(position, self.position) if clear else position

    async def wait(self, subscription_id: str, position: int) -> None:
        """Until the subscription has something to read after ``position``."""
        watched = self._watched[subscription_id]
        while watched.since <= position and watched.touched <= position:
            watched.woken.clear()
            await watched.woken.wait()


def touched_after(node: Node, after: int) -> tuple[Touched, int]:
    """What a page of events after a position touches, and the last position read."""
    view = node.reader.pin()
    touched: Touched = {}
    events = node.log.read(after, PAGE_EVENTS)
    for event in events:
        if event.position > view.position:
            break
        after = event.position
        names = facts_touched(event)
        if names is None:
            touched[EVERY] = after
            continue
        for name in names:
            slot = view.slot_of(name)
            if slot is None:
                continue
            touched[SCOPES[int(view.scope[slot])]] = after
            touched[view.entities.text(int(view.entity[slot]))] = after
    return touched, after if len(events) == PAGE_EVENTS else max(after, view.position)
