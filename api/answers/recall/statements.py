"""What a recalled fact says, in words that make sense alone."""

from __future__ import annotations

from typing import Any

from engramlog.projections.normalization import entity_display

PATH = "S8:entity-graph: "


def statement_of(item: dict[str, Any]) -> str:
    """A result of recall as a sentence: a text as it was said, the path by which the graph found a
    fact, and of any other value whose and what it is: ``alice role: CEO``."""
    if str(item.get("found_by", "")).startswith("S8"):
        for why in item["why"]:
            if why.startswith(PATH):
                return str(why.removeprefix(PATH))
    value = item["value"]
    if value["type"] == "text":
        return str(value["v"])
    subject, relation = entity_display(item["entity"]), item["relation"].rpartition(":")[2]
    if value["type"] == "ref":
        return f"{subject} —[{relation}]→ {entity_display(value['v'])}"
    number = value["v"]
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return f"{subject} {relation}: {number}"
