"""The pages of a fact's or an entity's life as one answer."""

from typing import Any

EVENTS_PAGE = 1_000
"""Most events of a page."""


def next_page(life: dict[str, Any]) -> dict[str, Any] | None:
    """The query for what follows the known part of a life; None at its end. It names no moment: a
    node may refuse every question about the past."""
    if not life.get("truncated"):  # an earlier release does not say it of a fact
        return None
    return {"after": life["events"][-1]["position"]}


def add_page(life: dict[str, Any], page: dict[str, Any]) -> None:
    """Add the next page to a life, which is then as of the page's moment. A fact that both pages
    name is stated once."""
    events = life["events"] + page["events"]
    stated = {fact["id"]: fact for fact in (*life.get("stated", ()), *page.get("stated", ()))}
    life.update(page, events=events)
    if "stated" in life:
        life["stated"] = list(stated.values())
