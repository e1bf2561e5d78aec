"""How deeply JSON nests and how much it holds, before it is decoded. Decoders recurse, so deep JSON
that one place of the program can read exhausts the stack of another. Each value takes many times
its bytes of memory."""

from collections.abc import Iterator
from itertools import accumulate

PIECE_BYTES = 65_536
"""Of each piece that is looked at: other threads wait no longer."""
_STEPS = bytes.maketrans(b"{}[]", b"\x01\xff\x01\xff")
"""Brackets as signed bytes: 1 opens a level, -1 closes it."""
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_BETWEEN = b",[{\n"


def nests_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more levels of arrays and objects than that. Takes linear time, also where
    ``data`` is no JSON; then the answer is no, or that of the JSON that it begins as."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    level = deepest = 0
    for piece in _outside_strings(data):
        steps = memoryview(piece.translate(_STEPS, _OTHERS)).cast("b")
        highest = max(accumulate(steps, initial=level))
        deepest = max(deepest, highest)
        level += sum(steps)
    return deepest > levels


def values_in(data: bytes) -> int:
    """How many values JSON or lines of JSON have; indented ones seem to have more."""
    return sum(sum(map(piece.count, _BETWEEN)) for piece in _outside_strings(data))


def _outside_strings(data: bytes) -> Iterator[bytes]:
    """The pieces of JSON without its strings."""
    start = inside = 0
    while start < len(data):
        piece = data[start : start + PIECE_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # it ends within an escape
            piece = data[start : start + PIECE_BYTES + 1]
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2
        start += len(piece)
