"""A class name means one thing in all rooms."""

import ast
from collections import defaultdict

from tests.worlds.source_tree import modules, tree_of

ONE_MEANING = {
    "Parameters": "of each recall stage, what a profile's document may say of it",
    **dict.fromkeys(
        (
            "AddDelta",
            "DeleteDelta",
            "Episode",
            "FactPattern",
            "NoopDelta",
            "SalienceContext",
            "UpdateDelta",
        ),
        "the node's own, and the one of Stargraph's protocol, whose names are given",
    ),
}
"""Names that several files have on purpose, and what they mean in all of them."""


def test_no_class_name_is_used_twice_with_two_meanings() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in modules().items():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    assert {name for name, where in found.items() if len(where) > 1} == set(ONE_MEANING)
