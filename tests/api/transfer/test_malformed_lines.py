"""Lines of an import that are no JSON are refused as such, wherever that shows."""

from __future__ import annotations

import pytest

from engramlog.api.transfer.lines.base import LineError
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
def test_a_line_that_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(LineError):
        decode_line(line)
