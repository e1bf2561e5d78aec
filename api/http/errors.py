"""Every way in which a request can fail, and the answer's bytes.

``error_codes`` maps stable codes to statuses; a table here maps typed errors to codes. A handler
raises ``ApiError`` or lets a typed error pass; only this module turns failures into answers. Bodies
follow the protocol: ``{"detail": text}``, ``{"detail": {"code", "message", …}}`` or the list of
``{"type", "loc", "msg", "input"}`` of a 422. Never a stack trace.
"""

import errno
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from engramlog.api.http.error_codes import (
    CODE_HEADER,
    PLAIN_TEXT,
    SEED_SENTENCES,
    SENTENCES,
    STATUS_BY_CODE,
)
from engramlog.api.node.fair_threads import ThreadsBusy, ThreadsClosed
from engramlog.api.schemas.messages import plain_message
from engramlog.eventlog.errors import (
    ClockSkew,
    CorruptLog,
    ExpectationFailed,
    HistoryChanged,
    IdempotencyConflict,
    LogBusy,
    LogClosed,
    NotDurable,
    OutcomeUnknown,
    PayloadTooLarge,
    StorageFailed,
    StorageFull,
)
from engramlog.projections.embedding.errors import DimensionMismatch, WrongDimensions
from engramlog.projections.library_threads import NO_THREAD
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.submission import (
    ReplicaReadOnly,
    WriterBusy,
    WriterClosed,
    WriterDegraded,
)

Found = TypeVar("Found")

CODE_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (IdempotencyConflict, "idempotency_conflict"),
    (ExpectationFailed, "expectation_failed"),
    (PayloadTooLarge, "payload_too_large"),
    (ClockSkew, "clock_skew"),
    (StorageFull, "storage_full"),
    (StorageFailed, "storage_failed"),
    (LogBusy, "log_busy"),
    (NotDurable, "not_durable"),
    (OutcomeUnknown, "outcome_unknown"),
    (HistoryChanged, "history_changed"),
    (CorruptLog, "degraded"),
    (LogClosed, "shutting_down"),
    (WriterClosed, "shutting_down"),
    (ThreadsClosed, "shutting_down"),
    (ReplicaReadOnly, "replica_read_only"),
    (WriterBusy, "writer_busy"),
    (ThreadsBusy, "long_work_busy"),
    (WriterDegraded, "degraded"),
    (DimensionMismatch, "embed_dimensionality_mismatch"),
    (WrongDimensions, "embed_dimensionality_mismatch"),
)
"""Typed errors of the lower rooms → code; the first match counts."""


class ApiError(Exception):
    """A failure with its status, the protocol's ``detail`` and further top-level keys."""

    def __init__(
        self,
        status: int,
        detail: object,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        if isinstance(detail, dict) and "code" in detail:
            self.headers.setdefault(CODE_HEADER, str(cast("dict[str, object]", detail)["code"]))
        self.extra = dict(extra or {})

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of a 422 list; empty for other failures."""
        if not isinstance(self.detail, list):
            return []
        return cast("list[dict[str, Any]]", self.detail)

    def body(self) -> dict[str, object]:
        return {"detail": self.detail, **self.extra}


def coded(code: str, message: str, /, **fields: object) -> ApiError:
    """The error of ``code``, with its status from the table."""
    return ApiError(STATUS_BY_CODE.get(code, 422), {"code": code, "message": message, **fields})


def plain(code: str) -> ApiError:
    """The error of a code that the protocol writes as a bare sentence."""
    return _sentence(code, PLAIN_TEXT[code])


def existing(found: Found | None, code: str) -> Found:
    """What a look-up found. Raises ``plain(code)`` for None."""
    if found is None:
        raise plain(code)
    return found


def prefixed(code: str, message: str) -> ApiError:
    """A 400 that the protocol writes as a sentence with the code before it."""
    return ApiError(400, f"{code}: {message}", headers={CODE_HEADER: code})


def _sentence(code: str, message: str) -> ApiError:
    """A bare sentence. Its code is in a header, and under ``errors`` if the seed has the code."""
    extra_keys = {"errors": [{"code": code, "message": message}]} if code in SEED_SENTENCES else {}
    return ApiError(STATUS_BY_CODE[code], message, headers={CODE_HEADER: code}, extra=extra_keys)


def refused(refusal: Refused) -> ApiError:
    """The answer to a writer's refusal."""
    if refusal.code in PLAIN_TEXT:
        return plain(refusal.code)
    status = STATUS_BY_CODE.get(refusal.code)
    if status is not None and refusal.code in SENTENCES:
        return _sentence(refusal.code, refusal.message)
    if status is None:
        return invalid_at(refusal.code, refusal.field or "", refusal.message)
    return coded(refusal.code, refusal.message)


def from_typed(fault: Exception) -> ApiError | None:
    """The answer for a typed error of the lower rooms; None for other errors."""
    for kind, code in CODE_BY_ERROR:
        if isinstance(fault, kind):
            return coded(code, str(fault))
    return None


def from_limit(fault: Exception) -> ApiError | None:
    """The answer if the process has no more memory, threads, files or processes, or if a library
    cannot be loaded, which is no bug; None for other errors."""
    if isinstance(fault, ImportError):  # only large ones are loaded on first use
        return coded("degraded", f"the node cannot load {fault.name or 'a library'}")
    scarce = isinstance(fault, OSError) and fault.errno in _SCARCE
    if scarce or isinstance(fault, MemoryError) or str(fault) == NO_THREAD:
        reason = str(fault) or "no memory"
        return coded("degraded", f"the node has reached a limit of its process: {reason}")
    return None


_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


def entry(
    kind: str,
    loc: Iterable[str | int],
    message: str,
    given: object = None,
    *,
    code: str | None = None,
) -> dict[str, Any]:
    """One entry of a 422 list; ``code`` adds the seed's code as ``ctx.code``."""
    item: dict[str, Any] = {"type": kind, "loc": list(loc), "msg": message, "input": given}
    if code is not None:
        item["ctx"] = {"code": code}
    return item


def unprocessable(entries: list[dict[str, Any]]) -> ApiError:
    """422 in the protocol's list shape."""
    return ApiError(422, entries)


def invalid(kind: str, loc: Iterable[str | int], message: str, given: object = None) -> ApiError:
    """422 with one entry."""
    return unprocessable([entry(kind, loc, message, given)])


def invalid_at(kind: str, path: str, message: str) -> ApiError:
    """422 with one entry, for a place in the body such as ``$.stages[0].name`` or ``deltas.0``."""
    parts = [int(part) if part.isdigit() else part for part in _PARTS.findall(path)]
    return invalid(kind, ["body", *parts], message)


_PARTS = re.compile(r"[^$.\[\]]+")


def entries_of(fault: ValidationError, *where: str | int) -> list[dict[str, Any]]:
    """A pydantic failure as 422 entries whose ``loc`` starts at ``where``."""
    entries: list[dict[str, Any]] = []
    for item in fault.errors(include_url=False):
        secret = item["loc"] and item["loc"][-1] in _SECRET_FIELDS
        given = "…" if secret else _echo(item["input"])
        context = item.get("ctx") or {}
        message = plain_message(item["type"], context, item["msg"])
        made = entry(item["type"], (*where, *item["loc"]), message, given)
        if context:
            made["ctx"] = _echo(context)
        entries.append(made)
    return entries


_SECRET_FIELDS = frozenset({"raw_key"})
_ECHO_LENGTH_MAX = 1000
_ECHO_ITEMS_MAX = 50


def _echo(given: Any) -> object:
    """The caller's input for an error message, without secrets and shortened."""
    if isinstance(given, dict):
        fields = cast("dict[Any, Any]", given)
        return {
            str(name): "…" if name in _SECRET_FIELDS else _echo(value)
            for name, value in islice(fields.items(), _ECHO_ITEMS_MAX)
        }
    if isinstance(given, list):
        items = cast("list[Any]", given)
        return [_echo(item) for item in items[:_ECHO_ITEMS_MAX]]
    if isinstance(given, str):
        return given if len(given) <= _ECHO_LENGTH_MAX else given[:_ECHO_LENGTH_MAX] + "…"
    if given is None or isinstance(given, bool | int | float):
        return given
    return str(given)[:_ECHO_LENGTH_MAX]
