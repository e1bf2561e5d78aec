"""The searched text of a fact, and the terms into which FTS5 splits it."""

import threading
from collections.abc import Callable

import apsw

from engramlog.projections.text.scripts import in_pairs

TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2", "categories", "L* M* N* Co"])
"""FTS5's tokenizer settings, for the tables and the memory image."""


def lexical_text(entity: str, relation: str, value_type: str, value_v: str) -> str:
    """The searched text of a fact: entity path, relation label and value. URIs lose scheme and
    authority, which all facts of a node share; the tokenizer itself splits at every other
    punctuation mark."""
    named = f"{uri_path(entity)} {relation}"
    said = searchable_value(value_type, value_v)
    return f"{named} {said}" if said else named


def searchable_value(value_type: str, value_v: str) -> str:
    """The value's part of the searched text."""
    if value_type == "ref":
        return uri_path(value_v)
    return "" if value_type == "null" else value_v


def uri_path(uri: str) -> str:
    """The part after a URI's authority; the whole URI without one."""
    scheme_end = uri.find("://")
    if scheme_end < 0:
        return uri
    path_start = uri.find("/", scheme_end + 3)
    return uri[scheme_end + 3 :] if path_start < 0 else uri[path_start + 1 :]


class Tokenizer:
    """FTS5's tokenizer as a function from text to terms. Each thread opens its own, with an
    in-memory connection."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def __call__(self, text: str) -> list[str]:
        cut: Callable[[str], list[str]] | None = getattr(self._of_thread, "cut", None)
        if cut is None:
            cut = self._of_thread.cut = _open_tokenizer()
        return cut(text)


def _open_tokenizer() -> Callable[[str], list[str]]:
    name, arguments = TOKENIZER
    db = apsw.Connection(":memory:")
    cut = db.fts5_tokenizer(name, arguments)
    reason = apsw.FTS5_TOKENIZE_DOCUMENT

    def tokenize(text: str) -> list[str]:
        # plain terms, without either option
        if not text.isascii():
            text = in_pairs(text)
        return cut(text.encode(), reason, None, include_offsets=False, include_colocated=False)  # pyright: ignore[reportReturnType]

    return tokenize
