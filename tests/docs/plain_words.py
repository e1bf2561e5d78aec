"""Pages, comments and docstrings keep to plain words: ``python -m tests.docs.plain_words`` lists
those that do not.

``docs/words.txt`` lists the replaced words, each with a better one.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = ROOT / "docs" / "words.txt"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
ROOMS = ("eventlog", "projections", "replay", "api", "benchmarks", "tests")

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


def prose_of(source: str) -> str:
    """The comments and docstrings of Python code on their lines; all else is blank."""
    lines = [""] * (source.count("\n") + 2)
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            for number, text in enumerate(token.string.split("\n"), token.start[0]):
                lines[number] += " " + text.strip()
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return "\n".join(lines[1:])


def texts() -> Iterator[tuple[Path, str]]:
    """Every page, and the prose of every source file."""
    for page in PAGES:
        yield page, page.read_text()
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            if "node_modules" not in file.parts:
                yield file, prose_of(file.read_text())


def main() -> int:
    """Print every finding; 1 if there are any."""
    words = replaced_words(WORDS.read_text())
    findings = [
        f"{file.relative_to(ROOT)}:{line}: “{phrase}”: {words[phrase]}"
        for file, text in texts()
        for line, phrase in sorted(found_in(text, words))
    ]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
