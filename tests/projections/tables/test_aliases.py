"""The alias book against a plain model, and similar names."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns.names.name_signatures import NameSignatures
from engramlog.projections.graph.name_similarity import (
    COMPARED_MAX,
    likeness,
    names_like,
)
from engramlog.projections.interner import Interner
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.declared.aliases import AliasBook, AliasRow

NAMES = ("user:a", "user:b", "user:c", "user:d")
_changes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), st.sampled_from(NAMES))), max_size=20
)


def leads_to(model: dict[str, str], name: str) -> str:
    while name in model:
        name = model[name]
    return name


@given(_changes)
def test_an_alias_applies_from_its_position(
    changes: list[tuple[str, str | None]],
) -> None:
    model: dict[str, str] = {}
    told: list[dict[str, str]] = [{}]
    rows: list[AliasRow] = []
    for raw, canonical in changes:
        others = {name: target for name, target in model.items() if name != raw}
        if canonical is not None and leads_to(others, canonical) == raw:
            continue  # the decision refuses cycles
        position = len(told)
        rows = [
            msgspec.structs.replace(row, to_position=position)
            if (row.raw_uri, row.to_position) == (raw, LIVE)
            else row
            for row in rows
        ]
        model = dict(others)
        if canonical is not None:
            rows.append(AliasRow(raw, canonical, "user", 0, position, LIVE))
            model[raw] = canonical
        told.append(model)
    book = AliasBook(rows)
    for position, known in enumerate(told):
        for name in NAMES:
            assert book.resolve(name, position) == leads_to(known, name)
        assert [row.raw_uri for row in book.list(position, "", 10, lambda _: True)] == sorted(known)


def interned(texts: list[str]) -> Interner:
    names = Interner()
    for text in texts:
        names.add(text)
    return names


def test_likeness_counts_shared_letters_and_the_place() -> None:
    assert likeness("user:anna", "user:anna") == 1.0
    # «anna», «anne»: three letters of four match, 2 · 3 / 8
    assert likeness("user:anna", "user:anne") == 0.75
    assert likeness("user:anna", "stigmem://x/user/anne") == 0.675
    assert likeness("user:anna", "user:xyz") == 0.0


def test_long_names_are_compared_by_their_beginnings() -> None:
    """A pair of 2,000 equal letters would take 0.4 s, and a question compares 2,000 pairs."""
    one = "doc:" + "a" * 2000
    assert likeness(one, one) == 1.0
    assert likeness(one, one[:-1]) == 0.9999
    assert likeness(one, "doc:" + "a" * 32) == 0.6667  # 2 · 32 / (64 + 32)


def test_the_best_of_many_are_found_in_any_order() -> None:
    texts = [f"thing:{n:05d}" for n in range(3 * COMPARED_MAX)] + ["thing:saturn-v"]
    signatures = NameSignatures()
    for order in (texts, texts[::-1]):
        names = interned(order)
        seen = np.arange(len(names), dtype=np.int32)
        found = names_like(
            "thing:saturn-5", names, seen, NameSignatures().of(names), threshold=0.5, limit=3
        )
        assert found[0].entity == "thing:saturn-v"
        again = names_like(
            "thing:00007", names, seen, NameSignatures().of(names), threshold=0.0, limit=50
        )
        assert [each.entity for each in again] == [
            each.entity
            for each in names_like(
                "thing:00007",
                interned(texts),
                seen,
                NameSignatures().of(interned(texts)),
                threshold=0.0,
                limit=50,
            )
        ]
    few = interned(texts[:3])
    assert len(signatures.of(few)) == 3
    few.add("thing:more")
    assert len(signatures.of(few)) == 4
