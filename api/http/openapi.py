"""OpenAPI 3.1 from the route table and the pydantic models: nothing is written twice."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from engramlog.api.http.routing import Route

DOCUMENT: web.AppKey[Callable[[], bytes]] = web.AppKey("document")
"""The document as JSON; made when it is first asked for, as few starts need it."""
_SEGMENT = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
_TEMPLATE = "#/components/schemas/{model}"
_MEANINGS = {
    400: "The request cannot be understood; `detail.code` says why.",
    401: "A key is required, or the one sent is not good.",
    403: "The caller lacks a right.",
    404: "Not found, or not visible to the caller.",
    405: "The method is not allowed here.",
    409: "The request conflicts with the state of the node.",
    410: "It was erased. Only admins get this answer.",
    413: "The body or a value is too large.",
    422: "A field is missing or wrong.",
    423: "A legal hold forbids it.",
    429: "The key's quota is used up; `Retry-After` says how long to wait.",
    500: "The node failed; `detail.error_id` is in its log.",
    501: "Switched off on this node.",
    503: "The node is degraded or busy; try again.",
    507: "No space left.",
}
HEADER_MEANINGS = {
    "X-Stigmem-Capability": "A capability token with verb write, in place of a peer token.",
    "Idempotency-Key": "Repeats of a request with the same key are answered, not written again.",
    "Stigmem-Session": "Id of the caller's session, at most 128 characters.",
    "Last-Event-ID": "The id of the last event that came; the stream goes on behind it.",
    "Stigmem-Verify": "`full` adds `chain_proof` to the answer.",
    "Accept": "`application/vnd.stigmem.x11+json` asks for status 400 where POST answers 422.",
}


def build_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(openapi_path(route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "engramlog",
            "version": _version(),
            "description": "A memory node for AI agents whose only truth is an append-only "
            "event log.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes) | _ERROR_SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def openapi_path(path: str) -> str:
    """The router's pattern in OpenAPI's form."""
    return _SEGMENT.sub(r"{\1}", path)


def _version() -> str:
    try:
        return version("engramlog")
    except PackageNotFoundError:
        return "0"


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [route.group],
        "summary": route.summary,
        "description": inspect.getdoc(route.handler) or route.summary,
        "parameters": _parameters(route),
        "responses": _responses(route),
        "x-permission": route.permission,
    }
    if route.permission != "none":
        operation["security"] = [{"key": []}]
    if route.body is not None:
        schema: dict[str, Any] = _reference(route.body)
        content = {"application/json": {"schema": schema}}
        if route.lines:
            content = {
                "application/json": {"schema": {"type": "array", "items": schema}},
                "application/x-ndjson": {"schema": schema},
            }
        operation["requestBody"] = {"required": route.body_required, "content": content}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _SEGMENT.findall(route.path)
    ]
    if route.query is not None:
        schema = route.query.model_json_schema(ref_template=_TEMPLATE)
        required = schema.get("required", [])
        found += [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in schema.get("properties", {}).items()
        ]
    found += [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": HEADER_MEANINGS[name],
            "schema": {"type": "string"},
        }
        for name in route.headers
    ]
    return found


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, model in route.answers.items():
        response: dict[str, Any] = {"description": route.summary}
        if model is not None:
            response["content"] = {"application/json": {"schema": _answer_schema(model)}}
        responses[str(status)] = response
    errors = set(route.errors) | {500}
    if route.permission != "none":
        errors |= {401, 403, 429} if route.permission != "any" else {401, 429}
    if route.body is not None or route.query is not None:
        errors.add(422)
    for status in sorted(errors):
        kind = "Unprocessable" if status == 422 else "Error"
        responses.setdefault(
            str(status),
            {
                "description": _MEANINGS[status],
                "content": {
                    "application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}
                },
            },
        )
    return responses


def _answer_schema(model: Any) -> dict[str, Any]:
    if isinstance(model, list):
        inner: Any = model[0]  # pyright: ignore[reportUnknownVariableType]
        return {"type": "array", "items": _answer_schema(inner)}
    if isinstance(model, tuple):
        several = cast("tuple[Any, ...]", model)
        return {"anyOf": [_answer_schema(each) for each in several]}
    if isinstance(model, str):
        return {"type": "object", "description": model}
    return _reference(model)


def _reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _TEMPLATE.format(model=model.__name__)}


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    models: list[type[BaseModel]] = []
    for route in routes:
        found = [model for answer in route.answers.values() for model in _models_of(answer)]
        if route.body is not None:
            found.insert(0, route.body)
        models += [model for model in dict.fromkeys(found) if model not in models]
    _, document = models_json_schema(
        [(model, "validation") for model in models], ref_template=_TEMPLATE
    )
    return document.get("$defs", {})


def _models_of(model: Any) -> list[type[BaseModel]]:
    if isinstance(model, list | tuple):
        several = cast("Sequence[Any]", model)
        return [found for each in several for found in _models_of(each)]
    return [model] if isinstance(model, type) and issubclass(model, BaseModel) else []


_CODED: dict[str, Any] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
}
_ERROR_SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["detail"],
        "properties": {
            "detail": {"oneOf": [{"type": "string"}, _CODED]},
            "errors": {"type": "array", "items": _CODED},
        },
    },
    "Unprocessable": {
        "type": "object",
        "required": ["detail"],
        "properties": {
            "detail": {
                "oneOf": [
                    {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["type", "loc", "msg"],
                            "properties": {
                                "type": {"type": "string"},
                                "loc": {
                                    "type": "array",
                                    "items": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                                },
                                "msg": {"type": "string"},
                                "input": {},
                            },
                        },
                    },
                    _CODED,
                    {"type": "string"},
                ]
            }
        },
    },
}
