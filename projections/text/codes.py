"""The codes in a question: ids, paths, versions, addresses and the names of programs' parts.

A code is a run without white space that people copy and do not paraphrase: ``INV-20931``,
``src/main.rs``, ``E_SCHEMA``, ``getUserById``, ``10.0.4.11``. Names (``SpaceX``), dates, times,
years and amounts (``1,500``) are none.
"""

import re

CODES_MAX = 8
"""The most codes of a question that are looked up."""
DIGITS_MIN = 3
"""The fewest digits of a number that is a code."""

_RUN = re.compile(r"[^\W_](?:(?:[\w.:/\\@#+-]|(?<=\d),(?=\d{3}(?!\d)))*[^\W_])?")
_PLAIN = re.compile(
    r"(?:1[89]|20)\d\ds?|\d{1,2}\.\d{1,2}\.\d{4}|\d{1,2}[.:]\d\d[ap]m", re.IGNORECASE
)
"""Years, decades, dates and times."""
_NUMBERS = re.compile(r"\d+(?:[^\w\s]\d+)*")
_DIGIT = re.compile(r"\d")
_INSIDE = re.compile(r"[_\\@#]|/.*[/.]|\w\.\w{2}|\b[a-z]+[A-Z]")


def codes_in(query: str) -> list[str]:
    """Each once, in their order."""
    found = dict.fromkeys(run for run in _RUN.findall(query) if _is_code(run))
    return list(found)[:CODES_MAX]


def _is_code(run: str) -> bool:
    if _PLAIN.fullmatch(run):
        return False
    if _NUMBERS.fullmatch(run):
        if run.isdigit():
            return len(run) >= DIGITS_MIN
        return run.count(".") >= 2 and run.replace(".", "").isdigit()
    return len(_DIGIT.findall(run)) >= DIGITS_MIN or bool(_INSIDE.search(run))
