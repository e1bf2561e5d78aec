"""Finds bytes of deleted payloads that SQLite left in ``log.db``.

It overwrites deleted rows and freed pages (``secure_delete``). But where it moves rows to another
page, copies of them may stay between a page's cell pointers and its cells; and a file may be older
than the setting. Rows of ``payloads`` come in order of their keys and so rarely move: looking at
the pages spares rewriting the file. https://sqlite.org/fileformat.html has the layout of pages.

Pages are read from the file itself, which has all of them only while the write-ahead log is empty.
"""

from collections.abc import Iterator
from typing import cast

import apsw
from msgspec import Struct

HEADER_BYTES = {0x05: 12, 0x0D: 8}
"""By the first byte of a page: an inner page, or a leaf, which holds rows."""
POINTERS_MAX = 0x2000
"""Above, two letters of a text would pass as a pointer: pages of the log have 4,096 bytes."""
PAGES_OF_PAYLOADS = """
SELECT pageno, pagetype = 'overflow', unused FROM dbstat
WHERE name = 'payloads' AND (pagetype <> 'internal' OR path = '/')"""
"""Inner pages have keys only. But the root was once a leaf, and in a file older than
``secure_delete`` keeps those rows."""


class PayloadPage(Struct, frozen=True):
    """A page of ``payloads``: of the tree, or (``overflow``) the next part of a long row.
    ``unused``: bytes that belong to no row."""

    number: int
    overflow: bool
    unused: int


def with_remnants(db: apsw.Connection) -> list[PayloadPage]:
    """The pages of ``payloads`` that may hold more than their rows: also those that another
    connection writes meanwhile."""
    rows = cast("Iterator[tuple[int, int, int]]", db.execute(PAGES_OF_PAYLOADS))
    pages = (PayloadPage(number, bool(overflow), unused) for number, overflow, unused in rows)
    size = _page_size(db)
    return [page for page in pages if not _is_clean(db, page, size)]


def are_clean(db: apsw.Connection, pages: list[PayloadPage]) -> bool:
    """Whether pages of the file hold nothing but their rows."""
    size = _page_size(db)
    return all(_is_clean(db, page, size) for page in pages)


def _is_clean(db: apsw.Connection, page: PayloadPage, size: int) -> bool:
    data = _page(db, page.number, size)
    if page.overflow:
        return _is_zero(data[len(data) - page.unused :])
    return _is_clean_node(data)


def are_free_pages_clean(db: apsw.Connection) -> bool:
    """Whether the pages that the file has no use for hold nothing but numbers of such pages: also,
    after these, of pages that were taken into use again."""
    size = _page_size(db)
    first = _page(db, 1, size)
    pages, trunk = _number(first, 28), _number(first, 32)
    for _ in range(_number(first, 36)):
        if not trunk:
            break
        data = _page(db, trunk, size)
        trunk, count = _number(data, 0), _number(data, 4)
        leaves = range(8, min(8 + 4 * count, len(data)), 4)
        unused = leaves.stop
        while unused < len(data) and 0 < _number(data, unused) <= pages:
            unused += 4
        if not _is_zero(data[unused:]):
            return False
        if not all(_is_zero(_page(db, _number(data, at), size)) for at in leaves):
            return False
    return not trunk


def _is_clean_node(data: bytes) -> bool:
    header = HEADER_BYTES.get(data[0])
    if header is None:
        return _is_zero(data)
    free, cells, content = (_short(data, at) for at in (1, 3, 5))
    unused = header + 2 * cells
    while header < _short(data, unused) < min(len(data), POINTERS_MAX):
        unused += 2  # pointers to deleted rows
    if not _is_zero(data[unused : content or 65_536]):
        return False
    while free:  # a chain of free blocks, ascending
        following, size = _short(data, free), _short(data, free + 2)
        if not _is_zero(data[free + 4 : free + size]) or 0 < following <= free:
            return False
        free = following
    return True


def _page_size(db: apsw.Connection) -> int:
    return cast("int", db.pragma("page_size"))


def _page(db: apsw.Connection, number: int, size: int) -> bytes:
    """A page as it is in the file; zero if the file does not reach it."""
    whole, data = db.read("main", 0, (number - 1) * size, size)
    return data if whole else bytes(size)


def _short(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2])


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4])


def _is_zero(data: bytes) -> bool:
    return data.count(0) == len(data)
