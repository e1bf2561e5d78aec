"""Histories run once and replayed in other ways."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, settings

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.event import Recorded
from engramlog.projections.authorization import everything as every_right
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, live
from engramlog.projections.moment import Moment
from engramlog.projections.tables.digest import Digests, compute_digests
from engramlog.projections.tables.store import ProjectionStore
from tests.worlds.histories import (
    START_US,
    Step,
    live_through,
)

RIGHTS = every_right()

QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextmanager
def lived(steps: list[Step]) -> Generator[Node, None, None]:
    """A node that went through a history."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        try:
            live_through(node, steps)
            yield node
        finally:
            node.close()


@contextmanager
def replayed(events: Sequence[Recorded], page: int) -> Generator[ProjectionStore, None, None]:
    """A store with events applied in pages of a size."""
    with tempfile.TemporaryDirectory() as folder:
        store = ProjectionStore(Path(folder) / "projections.db")
        try:
            for start in range(0, len(events), page):
                with store.db:
                    store.apply(events[start : start + page])
            assert not store.halted
            yield store
        finally:
            store.close()


def digests_in_pages(events: Sequence[Recorded], page: int) -> Digests:
    with replayed(events, page) as store:
        return compute_digests(store.db)


def judged(view: View, moment: Moment) -> dict[int, tuple[object, ...]]:
    """A view's complete judgement of each fact at a moment, by the fact's position."""
    slots = known(view, RIGHTS, moment)
    standing = set(live(view, RIGHTS, moment).tolist())
    return {
        int(view.from_position[slot]): (
            slot in standing,
            float(view.confidence(slots[index : index + 1], moment)[0]),
            float(view.trust(slots[index : index + 1], moment)[0]),
            int(view.access_count(slots[index : index + 1], moment)[0]),
            bool(are_contradicted(view, slots[index : index + 1], moment, RIGHTS)[0]),
        )
        for index, slot in enumerate(slots.tolist())
    }
