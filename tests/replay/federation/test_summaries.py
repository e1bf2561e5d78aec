"""Summaries travel with their scope: the same paragraphs, and never the end of another owner's."""

from pathlib import Path

from engramlog.projections.authorization import everything
from engramlog.projections.image.visible_facts import live
from engramlog.projections.summaries.reading import SummaryFilter, paragraphs_at, summaries_at
from engramlog.projections.writing.commands import Done
from engramlog.projections.writing.memory_commands import RecordSummary
from tests.worlds.federation.network import Link, Member

WEEK = "weekly/weekly_2026-W25.md"


def record(member: Member, text: str | None, scope: str = "company") -> None:
    intent = RecordSummary(name=WEEK, text=text, owner="user:mara", scope=scope)
    (outcome,) = member.submit([intent]).outcomes
    assert isinstance(outcome, Done), outcome


def known(member: Member) -> list[list[str]]:
    """Paragraphs of every current summary, by the facts' texts."""
    reader = member.node.reader
    view, moment = reader.pin(), member.node.moment()
    with reader.pool.connection() as db:
        rows = summaries_at(db, moment.position, everything(), SummaryFilter(), 100)
        facts = paragraphs_at(db, [row.position for row in rows])
    held = set(live(view, everything(), moment).tolist())
    found = [
        [
            view.passage(slot)
            for fact in facts[row.position]
            if (slot := reader.slot_of(fact)) is not None and slot in held
        ]
        for row in rows
    ]
    return sorted(found)


def test_a_replayed_summary_has_the_same_text_and_end(tmp_path: Path) -> None:
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    try:
        a.meet(b)
        b.meet(a)
        record(a, "One.\n\nTwo.")
        record(a, "Kept at home.", scope="local")
        b.pull(Link(b, a))
        assert known(b) == [["One.", "Two."]]
        # The same name, owner and scope here is our own summary.
        record(b, "Mine.")
        assert known(b) == [["Mine."], ["One.", "Two."]]
        a.pull(Link(a, b))
        record(a, "Two.\n\nThree.")
        b.pull(Link(b, a))
        assert known(b) == [["Mine."], ["Two.", "Three."]]
        record(a, None)
        b.pull(Link(b, a))
        assert known(b) == [["Mine."]]
        for member in (a, b):
            assert member.node.rebuild().digest == member.digests().local
    finally:
        a.close()
        b.close()
