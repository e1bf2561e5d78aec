"""``embeddings.db``: every vector ever computed, by its space and text.

(space, SHA-256 of the text) → unit vector, with its checksum. Rebuilds and as-of reads share it, so
a text is embedded once per model. It is only a cache and may be deleted. The keys are unsalted
hashes of short texts, so erasing a fact deletes its entry here too.
"""

import hashlib
import logging
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec
import numpy as np

from engramlog.eventlog.engines.sqlite.erasing import temporary_files_in, truncate_wal
from engramlog.projections.arrays import F32
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.tables.database import (
    BUSY_TIMEOUT_MS,
    opened_or_remade,
    query,
    query_one,
    remove_database,
    set_pragmas,
)
from engramlog.projections.tables.storage_faults import DAMAGED

LOOKUP_KEYS_MAX = 500
CHECKSUM_BYTES = 4
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spaces (id INTEGER PRIMARY KEY, space TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS vectors (
    text_sha256 BLOB NOT NULL,
    space INTEGER NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (text_sha256, space)
) STRICT;
"""
_GET = "SELECT text_sha256, vector FROM vectors WHERE space=? AND text_sha256 IN ({})"
_DELETE = "DELETE FROM vectors WHERE space=? AND text_sha256=?"
_PUT = "INSERT OR IGNORE INTO vectors (text_sha256, space, vector) VALUES (?,?,?)"

_log = logging.getLogger(__name__)


class EmbeddingCache:
    """Vectors by space and text. Safe from several threads. A damaged file is made again, empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._numbers: dict[Space, int] = {}
        self._db = opened_or_remade(path, self._opened)

    def _opened(self) -> apsw.Connection:
        db = apsw.Connection(str(self._path))
        try:
            db.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Deleted data is overwritten: deletion here is erasure.
            set_pragmas(db, "journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON")
            with db:
                db.execute(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _kept(self) -> Generator[None, None, None]:
        """The lock. A damaged file is made again, empty, and the block is left."""
        with self._lock:
            try:
                yield
            except DAMAGED as fault:
                _log.warning("%s is damaged and made again: %s", self._path, fault)
                self._db.close()
                remove_database(self._path)
                self._numbers.clear()
                self._db = self._opened()

    def get_many(self, space: Space, texts: Sequence[str]) -> list[F32 | None]:
        """The vector of each text, or None if it was not embedded in this space."""
        keys = [text_key(text) for text in texts]
        found: dict[bytes, bytes] = {}
        with self._kept():
            number = self._number(space)
            for start in range(0, len(keys), LOOKUP_KEYS_MAX):
                some = keys[start : start + LOOKUP_KEYS_MAX]
                rows: list[tuple[Any, ...]]
                rows = query(self._db, _GET.format(",".join("?" * len(some))), (number, *some))
                found.update(rows)
            intact = {key: _intact(data, space.stored_dimensions) for key, data in found.items()}
            damaged = [(number, key) for key, vector in intact.items() if vector is None]
            if damaged:
                _log.warning("%s: %d damaged vectors are deleted", self._path, len(damaged))
                self._db.executemany(_DELETE, damaged)
            return [intact.get(key) for key in keys]
        return [None] * len(keys)

    def put_many(self, space: Space, texts: Sequence[str], vectors: F32) -> bool:
        """Store the vectors of ``texts``, one row each; existing ones do not change. Returns
        whether all were new."""
        if vectors.shape != (len(texts), space.stored_dimensions):
            raise ValueError(f"{len(texts)} texts, vectors of shape {vectors.shape}")
        data = np.ascontiguousarray(vectors, dtype="<f4")
        stored = 0
        with self._kept(), self._db:
            number = self._number(space)
            before = self._db.total_changes()
            self._db.executemany(
                _PUT,
                (
                    (text_key(text), number, _checked(row.tobytes()))
                    for text, row in zip(texts, data, strict=True)
                ),
            )
            stored = self._db.total_changes() - before
        return stored == len(texts)

    def keep_only(self, keys: Iterable[bytes]) -> None:
        """Delete all vectors except those of these texts (``text_key``), and rewrite the file, so
        that it holds nothing of the others. A text that is used meanwhile may be embedded again."""
        with self._kept(), temporary_files_in(self._path.absolute().parent, self._db):
            self._db.execute("CREATE TEMP TABLE kept (key BLOB PRIMARY KEY) WITHOUT ROWID")
            try:
                with self._db:
                    self._db.executemany(
                        "INSERT OR IGNORE INTO kept VALUES (?)", ((key,) for key in keys)
                    )
                    self._db.execute(
                        "DELETE FROM vectors WHERE text_sha256 NOT IN (SELECT key FROM kept)"
                    )
            finally:
                self._db.execute("DROP TABLE kept")
            self._db.execute("VACUUM")
            truncate_wal(self._db)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._db.close()

    def _number(self, space: Space) -> int:
        """The row of a space. Vectors do not depend on how their model is served."""
        known = self._numbers.get(space)
        if known is not None:
            return known
        name = msgspec.json.encode(
            [space.model, space.dimensions, space.stored_dimensions, space.recipe]
        ).decode()
        self._db.execute("INSERT OR IGNORE INTO spaces (space) VALUES (?)", (name,))
        found = query_one(self._db, "SELECT id FROM spaces WHERE space=?", (name,))
        assert found is not None
        if not self._db.in_transaction:  # else it may be undone
            self._numbers[space] = int(found[0])
        return int(found[0])


def _checked(vector: bytes) -> bytes:
    """A vector as stored, with its checksum."""
    return vector + crc32(vector).to_bytes(CHECKSUM_BYTES)


def _intact(stored: bytes, dimensions: int) -> F32 | None:
    """The vector; None if a bit of it has flipped. Those of earlier releases have no checksum."""
    vector = stored[: 4 * dimensions]
    if len(stored) > len(vector) and _checked(vector) != stored:
        return None
    return np.frombuffer(vector, dtype="<f4")


def text_key(text: str) -> bytes:
    """SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).digest()
