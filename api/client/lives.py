"""The pages of a fact's or an entity's life as one answer."""

from typing import Any

EVENTS_PAGE = 1_000
"""Most events of a page."""


def next_page(life: dict[str, Any]) -> dict[str, Any] | None:
    """The query for what follows the known part of a life, as of its moment; None at its end."""
    if not life.get("truncated"):  # an earlier release does not say it of a fact
        return None
    moment = life["moment"]["position"]
    return {"after": life["events"][-1]["position"], "as_of": f"position:{moment}"}


def add_page(life: dict[str, Any], page: dict[str, Any]) -> None:
    """Add the next page to a life. A fact that both pages name is stated once."""
    life["events"] += page["events"]
    life["truncated"] = page["truncated"]
    if "stated" in life:
        stated = {fact["id"]: fact for fact in (*life["stated"], *page["stated"])}
        life["stated"] = list(stated.values())
