"""Storage that fails when a test says so."""

from __future__ import annotations

from typing import Any

import apsw


class FailingOnce:
    """A connection whose next COMMIT fails as on a full disk."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        if sql == "COMMIT" and not self.failed:
            self.failed = True
            raise apsw.FullError("disk full")
        return self._db.execute(sql, *rest)
