"""OpenAPI 3.1, generated from the route table and the models.

Requests are pydantic models. Answers are the structs that handlers build.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from types import UnionType
from typing import Annotated, Any, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from pydantic.json_schema import models_json_schema

from engramlog.api import schemas
from engramlog.api.http.routing import Media, Route
from engramlog.api.release import release
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.field_texts import field_text

_SEGMENT = re.compile(r"\{(\w+)(?::[^{}]*)?\}")
_TEMPLATE = "#/components/schemas/{model}"
_STRUCT = _TEMPLATE.format(model="{name}")
_MEANINGS = {
    400: "The request cannot be understood; `detail.code` says why.",
    401: "The request needs a key, or the key is not valid.",
    403: "The caller lacks a right.",
    404: "Not found, or not visible to the caller.",
    405: "The route does not have this method.",
    409: "The request conflicts with the state of the node.",
    410: "The fact is erased. Only admins get this answer.",
    413: "The body or a value is too large.",
    422: "A field is missing or wrong.",
    423: "A legal hold forbids it.",
    429: "The key's quota is used up; `Retry-After` says how long to wait.",
    500: "The node failed; `detail.error_id` is in its log.",
    501: "Switched off on this node.",
    503: "The node is degraded or busy; try again.",
    507: "No space left.",
}
_BYTES = {"type": "string", "format": "binary"}
_LINES = "An array; or as `application/x-ndjson`, one item a line."
HEADER_MEANINGS = {
    "X-Stigmem-Capability": "A capability token with verb write, in place of a peer token.",
    "Idempotency-Key": "Repeated requests with the same key are answered, not written again.",
    "Stigmem-Session": "Id of the caller's session, at most 128 characters.",
    "Last-Event-ID": "The id of the last received event; the stream continues after it.",
    "Stigmem-Verify": "`full` adds `chain_proof` to the answer.",
    "Accept": "With `application/vnd.stigmem.x11+json`, a wrong depth, budget or weight is 400.",
}


class CodedError(Struct):
    """A failure with a code."""

    code: Annotated[str, Meta(description="The error's stable code.")]
    message: Annotated[str, Meta(description="The error's message, for people.")]


class FieldError(Struct):
    """One fault of a request."""

    type: Annotated[str, Meta(description="The error's code.")]
    loc: Annotated[
        list[str | int], Meta(description="Where: body, query or path, then names and places.")
    ]
    msg: Annotated[str, Meta(description="The error's message, for people.")]
    input: Annotated[Any, Meta(description="The input there.")] = UNSET


_WRONG = Meta(description="What is wrong.")


class Error(Struct):
    """Any failure but 422."""

    detail: Annotated[str | CodedError, _WRONG]
    errors: Annotated[
        list[CodedError] | UnsetType, Meta(description="The errors, if there are several.")
    ] = UNSET


class Unprocessable(Struct):
    """The answer 422."""

    detail: Annotated[list[FieldError] | CodedError | str, _WRONG]


def build_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(openapi_path(route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "engramlog",
            "version": release(),
            "description": "A memory for AI agents, over an append-only event log.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def openapi_path(path: str) -> str:
    """The router's pattern in OpenAPI's form."""
    return _SEGMENT.sub(r"{\1}", path)


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [route.group],
        "summary": route.summary,
        "description": route.description,
        "parameters": _parameters(route),
        "responses": _responses(route),
        "x-permission": route.permission,
    }
    if route.permission != "none":
        operation["security"] = [{"key": []}]
    if route.body is not None:
        operation["requestBody"] = _request_body(route, route.body)
    _show(operation, examples().get(f"{route.method} {route.path}", {}))
    return operation


def _request_body(route: Route, model: type[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": _TEMPLATE.format(model=model.__name__)}
    body: dict[str, Any] = {"required": route.body_required}
    if route.lines:
        schema = {"type": "array", "items": schema}
        body["description"] = _LINES
    return {**body, "content": {"application/json": {"schema": schema}}}


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Examples of the main routes, by method and path: a ``request`` with ``query`` and ``path``,
    and the ``answer`` to it."""
    return msgspec.json.decode(files(schemas).joinpath("examples.json").read_bytes())


def _show(operation: dict[str, Any], example: dict[str, Any]) -> None:
    """Put an example into a route's description."""
    given = {**example.get("path", {}), **example.get("query", {})}
    for each in operation["parameters"]:
        if each["name"] in given:
            each["example"] = given[each["name"]]
    if "request" in example:
        operation["requestBody"]["content"]["application/json"]["example"] = example["request"]
    for status in ("200", "201") if "answer" in example else ():
        if status in operation["responses"]:
            content = operation["responses"][status]["content"]
            content["application/json"]["example"] = example["answer"]


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": field_text(name, "in-path"),
            "schema": {"type": "string"},
        }
        for name in _SEGMENT.findall(route.path)
    ]
    if route.query is not None:
        schema = route.query.model_json_schema(ref_template=_TEMPLATE)
        required = schema.get("required", [])
        found += [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "description": field_text(name, route.query.__name__, "in-query"),
                "schema": field,
            }
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
        if isinstance(model, Media):
            response |= {"description": model.words, "content": _media(model.type)}
        elif model is not None:
            response["content"] = {"application/json": {"schema": _answer_schema(model)}}
        responses[str(status)] = response
    errors = set(route.errors) | {500}
    if _SEGMENT.search(route.path):
        errors.add(404)  # the path's name may be malformed
    if route.permission != "none":
        errors |= {401, 403, 429} if route.permission != "any" else {401, 429}
    if route.body is not None:
        errors |= {400, 413}
    if route.body is not None or route.query is not None:
        errors.add(422)
    if route.query is not None and issubclass(route.query, MomentQuery):
        errors |= {400, 501}
    if route.changes:
        errors |= {409, 503, 507}
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


def _media(media_type: str) -> dict[str, Any]:
    """Our own media types are bytes as well, which client generators can hand out."""
    if media_type.startswith("text/"):
        return {media_type: {}}
    return dict.fromkeys((media_type, "application/octet-stream"), _BYTES)


def _answer_schema(model: Any) -> dict[str, Any]:
    if isinstance(model, str):
        return {"type": "object", "description": model}
    if isinstance(model, UnionType):
        return {"anyOf": [_answer_schema(each) for each in get_args(model)]}
    (schema,), _ = msgspec.json.schema_components((model,), ref_template=_STRUCT)
    return schema


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    answered = [
        model
        for route in routes
        for answer in route.answers.values()
        if answer is not None and not isinstance(answer, str | Media)
        for model in (get_args(answer) if isinstance(answer, UnionType) else (answer,))
    ]
    bodies = dict.fromkeys(route.body for route in routes if route.body is not None)
    _, of_structs = msgspec.json.schema_components(
        (*answered, Error, Unprocessable), ref_template=_STRUCT
    )
    _, of_models = models_json_schema(
        [(model, "validation") for model in bodies], ref_template=_TEMPLATE
    )
    answers = {name: _as_sent(schema) for name, schema in of_structs.items()}
    return {
        name: _described(name, schema)
        for name, schema in (answers | of_models.get("$defs", {})).items()
    }


def _described(model: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with each field's text."""
    fields: dict[str, dict[str, Any]] = schema.get("properties", {})
    described = {
        name: {"description": field_text(name, model), **_typed(field)}
        for name, field in fields.items()
    }
    return {**schema, "properties": described} if fields else schema


def _typed(part: Any) -> Any:
    """Completes a schema for client generators: item types of lists, types of choices, and
    references alone."""
    if isinstance(part, list):
        return [_typed(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    typed = {name: _typed(each) for name, each in cast("dict[str, Any]", part).items()}
    if "$ref" in typed:
        typed.pop("type", None)
    if typed.get("type") == "array":
        typed.setdefault("items", {})
    if all(isinstance(each, str) for each in typed.get("enum", [None])):
        typed["type"] = "string"
    return typed


def _as_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of answers: fields with defaults are always present, unless omitted."""
    fields: dict[str, dict[str, Any]] = schema.get("properties", {})
    always = set(schema.get("required", ())) | {
        name for name in fields if "default" in fields[name]
    }
    plain = {
        name: {key: each for key, each in field.items() if key != "default"}
        for name, field in fields.items()
    }
    return {**schema, "properties": plain, "required": [name for name in fields if name in always]}
