"""The pages keep to plain words: ``python -m tests.docs.plain_words`` lists those that do not.

``docs/words.txt`` has the words that were replaced, and what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = ROOT / "docs" / "words.txt"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

_CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def replaced_words(text: str) -> dict[str, str]:
    """Each phrase of a word list, with what to write instead."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    parts = [line.partition(":") for line in lines]
    return {phrase: instead.strip() for phrase, _, instead in parts}


def found_in(page: str, words: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The lines, from 1, on which a page has one of the phrases outside code."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), page)
    for phrase in words:
        pattern = r"\b" + r"\s+".join(map(re.escape, phrase.split())) + r"\b"
        for match in re.finditer(pattern, prose, re.IGNORECASE):
            yield page.count("\n", 0, match.start()) + 1, phrase


def main() -> int:
    """Print every finding; 1 where there are any."""
    words = replaced_words(WORDS.read_text())
    findings = [
        f"{page.relative_to(ROOT)}:{line}: “{phrase}”: {words[phrase]}"
        for page in PAGES
        for line, phrase in sorted(found_in(page.read_text(), words))
    ]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
