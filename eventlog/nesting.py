"""How deeply JSON nests. Decoders recurse, so deep JSON that one place of the program can read
exhausts the stack of another."""

import re

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def nests_deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more levels of arrays and objects than that. Takes linear time, also where
    ``data`` is no JSON; then the answer is no, or that of the JSON that it begins as."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    level = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        level += 1 if bracket[0] in b"[{" else -1
        if level > levels:
            return True
    return False
