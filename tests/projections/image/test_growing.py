"""Reading columns while the writer adds to them: listing them may start the garbage collector,
which lets the writer's thread run. Here it adds an entry at each collection."""

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.columns.numbered_texts import FactIds, SaidValues
from engramlog.projections.columns.slot_lists import Postings
from engramlog.projections.image.fact_texts import History, OwnTexts

ENTRIES = 100


@contextmanager
def growing(add: Callable[[int], object]) -> Generator[None]:
    """Add an entry whenever Python collects garbage, which is often."""
    added: list[int] = []

    def collected(phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            added.append(0)
            add(ENTRIES + len(added))

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*before)
    assert added


def test_lists_are_read_while_they_grow() -> None:
    lists = Postings()
    for n in range(ENTRIES):
        lists.add(f"term {n}", n)
    with growing(lambda n: lists.add(f"term {n}", n)):
        grown = lists.grown(ENTRIES)
    assert grown.slots.tolist() == list(range(ENTRIES))


def test_ids_and_values_are_read_while_they_grow() -> None:
    ids, values = FactIds(), SaidValues()
    for n in range(ENTRIES):
        ids[f"id {n}"] = n
        values.add("text", f"value {n}")
    with growing(lambda n: ids.__setitem__(f"id {n}", n)):
        assert len(ids.fresh_keys(ENTRIES)) == ENTRIES
        assert len(list(ids.items())) >= ENTRIES
    with growing(lambda n: values.add("text", f"value {n}")):
        assert len(values.fresh_keys(ENTRIES)) == ENTRIES


def test_texts_are_read_while_they_grow() -> None:
    history: History = {n: [(n, FactAttributes(keywords="tea"))] for n in range(ENTRIES)}
    texts = OwnTexts(history, "keywords")
    with growing(lambda n: history.__setitem__(n, [(n, FactAttributes(keywords="milk"))])):
        found = texts.texts_from(0)
    assert found[:ENTRIES] == ["tea"] * ENTRIES
