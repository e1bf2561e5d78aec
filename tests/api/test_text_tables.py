"""Tables on a terminal."""

from argparse import Namespace

import pytest

from engramlog.api.cli import text_tables
from engramlog.api.cli.questions.ask import print_recall
from engramlog.api.cli.requests import table
from engramlog.api.cli.text_tables import since

ID = "01a2098c-6d57-856a-967b-6938d84fee9e"


def test_a_narrow_terminal_shows_whole_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(text_tables, "_terminal_width", lambda: 80)
    text_tables.print_table(("relation", "value", "id"), [["memory:role", "x" * 90, ID]])
    (head, row) = capsys.readouterr().out.splitlines()
    assert head.split() == ["relation", "value", "id"]
    assert row.endswith(f"x…  {ID}")
    assert len(row) == 80
    text_tables.print_table(("receipt", "id"), [[ID * 2, ID * 2]])
    assert f"{ID * 2}  {ID * 2}\n" in capsys.readouterr().out


@pytest.mark.parametrize("mark", ["before", "cursor"])
def test_a_list_says_whether_more_follow(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    show = table({"id": "id"}, "items")
    for after, shown in ((7, "id\na\nmore follow\n"), (None, "id\na\n")):
        show(Namespace(), {"items": [{"id": "a"}], mark: after})
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("weak", [True, False, None])
@pytest.mark.parametrize("embeds", [True, False])
def test_a_recall_says_that_it_may_not_answer_and_how_to_get_more(
    truncated: bool, weak: bool | None, embeds: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fact = {"entity": "user:ann", "relation": "memory:stored", "timestamp": "2026-05-01T00:00:00Z",
            "value": {"type": "text", "v": "tea"}}  # fmt: skip
    print_recall(
        {"facts": [{"score": 0.1, "fact": fact}], "weak_evidence": weak, "hint": None,
         "truncated": truncated, "total_scored": 2, "tokens_used": 41,
         "embedding": {"enabled": embeds, "model": None}}
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert ("weak evidence" in printed) is (weak is True)
    assert ("--limit or --budget" in printed) is truncated
    assert ("by words and graph alone" in printed) is not embeds


@pytest.mark.parametrize(
    ("begins", "ends", "shown"),
    [
        (None, None, "2026-11-27"),
        ("2024-05-01T09:00:00Z", None, "2024-05-01"),
        ("2024-05-01T09:00:00Z", "2025-01-01T00:00:00Z", "2024-05-01..2025-01-01"),
    ],
)
def test_a_fact_holds_since_its_stated_time(
    begins: str | None, ends: str | None, shown: str
) -> None:
    fact = {"valid_from": begins, "valid_until": ends, "timestamp": "2026-11-27T06:00:00Z"}
    assert since(fact) == shown
