"""Splits a summary's text into paragraphs."""

import re

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


def paragraphs_of(text: str) -> list[str]:
    """The paragraphs, in order: the text between blank lines, stripped."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return [each for part in _BLANK_LINES.split(lines) if (each := part.strip())]
