"""A tool's request to the node, and the node's refusals in words for a model."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct
from pydantic import ValidationError

from engramlog.api.client.client import ClientError, failure_of
from engramlog.api.http.errors import entries_of

_CODE_BY_STATUS = {
    0: "node_unreachable",
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    422: "invalid_arguments",
    429: "quota_exceeded",
}


class NodeRequest(Struct, frozen=True, kw_only=True):
    """One HTTP request."""

    method: Literal["GET", "POST"]
    path: str
    query: Mapping[str, object] | None = None
    body: Mapping[str, object] | None = None


class ToolFailure(Exception):
    """A failed call, as the model reads it.

    Attributes: status: the node's HTTP status; 0 without a request or an answer.
        code: stable; the node's from ``docs/errors.md``, if any.
        fields: the rest of the node's ``detail``.
    """

    def __init__(
        self, status: int, code: str, message: str, fields: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fields = dict(fields or {})

    def body(self) -> dict[str, object]:
        error = {"code": self.code, "message": self.message, "status": self.status}
        return {"error": {**error, **self.fields}}


def failure_of_node(fault: ClientError) -> ToolFailure:
    """The node's refusal, with its code if any."""
    detail = _detail(fault.answer)
    message = str(fault)
    if isinstance(detail, dict):
        known = cast("dict[str, object]", detail)
        fields = {k: v for k, v in known.items() if k not in ("code", "message")}
        return ToolFailure(fault.status, fault.code or _by_status(fault.status), message, fields)
    if isinstance(detail, list):
        entries = cast("list[dict[str, Any]]", detail)
        return ToolFailure(fault.status, _code_of(entries), message, {"detail": entries})
    message = message.removeprefix(f"{fault.code}: ")  # of the protocol's sentences
    return ToolFailure(fault.status, fault.code or _by_status(fault.status), message)


def failure_of_arguments(fault: ValidationError) -> ToolFailure:
    """Arguments that do not match the tool's schema, in the form of the node's own 422."""
    return failure_of_node(failure_of(0, {"detail": entries_of(fault, "body")}))


def _code_of(entries: list[dict[str, Any]]) -> str:
    for item in entries:
        context: dict[str, object] = item.get("ctx") or {}
        if "code" in context:
            return str(context["code"])
    return _CODE_BY_STATUS[422]


def _by_status(status: int) -> str:
    return _CODE_BY_STATUS.get(status, f"http_{status}")


def _detail(answer: object) -> object:
    if not isinstance(answer, dict):
        return None
    return cast("dict[str, object]", answer).get("detail")
