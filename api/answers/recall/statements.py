"""Recalled facts as sentences that are clear alone."""

from typing import Any

from engramlog.projections.normalization import entity_display

PATH = "S8:entity-graph: "


def statement_of(item: dict[str, Any]) -> str:
    """A result of recall as a sentence. For a text: the text. For a fact from the graph: its path.
    For other values: owner, name and value, as in ``alice role: CEO``."""
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
