"""A history with every kind of step."""

from __future__ import annotations

from tests.worlds.private_steps import Step

BUSY = [
    Step("fact", False, entity=0, relation=0, value=0),
    Step("garden", True, garden=0),
    Step("garden", True, garden=1),
    Step("fact", True, entity=1, relation=0, value=1, source=2),
    Step("fact", True, entity=1, relation=0, value=0, source=1),
    Step("fact", True, entity=0, relation=0, value=1, source=1, derived=True),
    Step("fact", True, entity=2, relation=0, value=0, source=0),
    Step("fact", True, entity=2, relation=0, value=1, source=1),
    Step("fact", True, entity=2, relation=1, value=3, garden=1, source=2),
    Step("fact", True, entity=0, relation=1, value=4, garden=0, source=2),
    Step("fact", False, entity=1, relation=0, value=0, source=3),
    Step("fact", False, entity=1, relation=1, value=5),
    Step("fact", False, entity=3, relation=0, value=2, derived=True),
    Step("fact", False, entity=1, relation=0, value=1, source=1),
    Step("resolve", True, pick=0),
    Step("review", True, pick=5),
    Step("sweep", False, pick=0),
    Step("recall", True, pick=1),
    Step("retract", True, pick=2),
    Step("fact", True, entity=3, relation=0, value=0, source=0, confidence=0.0),
    Step("fact", True, entity=0, relation=2, value=6, garden=1, source=2),
    Step("episode", True, value=1, pick=0, derived=True),
    Step("episode", False, value=0, pick=0, derived=True),
    Step("look", True),
    Step("classified", True, entity=1, relation=0, value=1, source=2, pick=0),
    Step("classified", True, entity=0, relation=0, value=0, source=0, pick=2),
    Step("classified", True, entity=0, relation=0, value=1, source=1, pick=1),
    Step("classified", False, entity=0, relation=0, value=1, source=3, pick=1),
    Step("reclassify", False, pick=1),
    Step("reclassify", True, pick=0),
    Step("delta", True, entity=1, value=1, pick=0, source=0),
    Step("delta", False, entity=1, value=0, pick=2, source=0),
    Step("delta", True, entity=1, value=0, pick=2, source=0, derived=True),
    Step("delta", True, entity=1, value=0, pick=1, source=0, derived=True),
    Step("summary", True, entity=0, value=0, pick=2, source=0),
    Step("summary", False, entity=0, value=1, pick=1, source=0),
    Step("summary", True, entity=0, value=0, pick=0, source=0),
]
"""A history with every kind of step."""


EVERYTHING = [
    *BUSY[:9],
    Step("order", False, entity=2, source=2),
    Step("rule", False, pick=1),
    Step("alias", False, entity=1),
    Step("asked", False),
    Step("intent", False),
    *BUSY[9:16],
    Step("trust", False, source=2, confidence=0.4),
    Step("decay", False),
    *BUSY[16:21],
    Step("policy", False, pick=0),
    Step("member", False, pick=1),
    Step("many", False, relation=0),
    Step("asked", False, pick=1),
    *BUSY[21:],
    Step("unalias", False),
    Step("release", False, pick=9),
    Step("erase", True, pick=4),
]
"""A history with every kind of step."""
