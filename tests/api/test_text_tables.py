"""Tables on a terminal."""

from argparse import Namespace

import pytest

from engramlog.api.console import text_tables
from engramlog.api.console.requests import table

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
