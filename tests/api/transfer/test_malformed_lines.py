"""Import lines that are not JSON are refused as such, and dates in lines are parsed."""

import pytest

from engramlog.api.transfer.lines.base import LineError
from engramlog.api.transfer.lines.facts import AssertLine, stated_fact
from engramlog.api.transfer.lines.line_kinds import decode_line


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"op":"nothing","entity":}',
        b'{"op":"assert","entity":"user:a","value":-0.0{}}',
        b'{"op":"as\xd6ert"}',
        b'{"entity":"\xff"}',
        b"[" * 10_000,
        b'{"op":' * 10_000,
    ],
)
def test_a_line_that_is_not_json_is_refused(line: bytes) -> None:
    with pytest.raises(LineError):
        decode_line(line)


def test_a_line_in_another_encoding_is_called_so() -> None:
    line = '{"entity": "Zürich"}'
    for text, byte in (line.encode("latin-1"), 13), (line.encode("utf-16"), 0):
        with pytest.raises(LineError, match=rf"is not UTF-8 \(byte {byte}\)"):
            decode_line(text)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-11-22", "2026-11-22T00:00:00Z"),
        ("2026-11-22T08:00:00+01:00", "2026-11-22T08:00:00+01:00"),
    ],
)
def test_a_date_alone_is_its_first_moment(given: str, stored: str) -> None:
    line = decode_line(
        b'{"entity":"user:a","relation":"x:b","value":{"type":"string","v":"c"},"source":"agent:t","valid_from":"%s"}'
        % given.encode()
    )
    assert isinstance(line, AssertLine)
    assert stated_fact(line, 1_000).valid_from == stored


def test_a_plain_text_as_value_is_told_how_to_be_written() -> None:
    line = b'{"entity": "user:ann", "relation": "said", "value": "hi", "source": "user:ann"}'
    with pytest.raises(LineError, match=r'value: .*a text is \{"type": "string", "v": "…"\}'):
        decode_line(line)
