"""``/openapi.json`` is complete for people and for client generators."""

from collections.abc import Iterator
from typing import Any

import pytest

from engramlog.api.http.openapi import build_openapi, examples
from engramlog.api.routes.table import ROUTES
from engramlog.api.schemas.field_texts import field_texts
from tests.worlds.live import LiveNode


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_openapi(ROUTES)


def test_every_field_and_parameter_has_a_description(document: dict[str, Any]) -> None:
    silent = [where for where, part in _described(document) if not part.get("description")]
    assert silent == [], "give each a text in api/schemas/field_texts.toml"


def test_descriptions_of_routes_name_nothing_of_the_code(document: dict[str, Any]) -> None:
    texts = [route["description"] for path in document["paths"].values() for route in path.values()]
    assert len(texts) > 100
    assert [text for text in texts if "Raises" in text or "ApiError" in text] == []


def test_every_text_describes_something(document: dict[str, Any]) -> None:
    texts = field_texts()
    used = {
        (model if name in texts.get(model, {}) else "shared", name)
        for (model, name), _ in _described(document)
    }
    of_queries = {route.query.__name__ for route in ROUTES if route.query is not None}
    shown = {(name, part["description"]) for (_, name), part in _described(document)}
    used |= {
        (model, name)
        for model in of_queries & texts.keys()
        for name, text in texts[model].items()
        if (name, text) in shown
    }
    written = {(model, name) for model, entries in texts.items() for name in entries}
    assert {each for each in written - used if not each[0].startswith("mcp")} == set()


_FITTING = {
    "Whether ": "boolean",
    "true: ": "boolean",
    "Number of ": "integer",
    "How many ": "integer",
    "Ids of ": "array",
    "The facts.": "array",
    "The streams.": "array",
    "The tombstones.": "array",
}
"""How texts begin that describe values of one type."""
_WORDED = {"auth", "federation", "source_attestation", "memory_garden_acl_filtering"}
"""The protocol answers these in a word each, such as ``enabled``."""


def test_descriptions_fit_the_types(document: dict[str, Any]) -> None:
    """Regression: names that models share have texts that fitted one of them alone."""
    wrong = [
        (where, part["description"])
        for where, part in _described(document)
        for start, kind in _FITTING.items()
        if (part["description"] or "").startswith(start)
        and where[1] not in _WORDED
        and kind not in (types := _types(part, document))
        and "object" not in types
    ]
    assert wrong == []


def _types(part: dict[str, Any], document: dict[str, Any]) -> set[str]:
    """The types that a field or parameter may have."""
    if "$ref" in part:
        model = document["components"]["schemas"][part["$ref"].rpartition("/")[2]]
        return _types(model, document)
    given = part.get("type", [])
    found = {given} if isinstance(given, str) else set(given)
    for each in (*part.get("anyOf", ()), *([part["schema"]] if "schema" in part else ())):
        found |= _types(each, document)
    return found


def test_generators_of_clients_understand_every_part(document: dict[str, Any]) -> None:
    """Regressions: warnings and omissions of openapi-python-client and openapi-typescript."""
    for part in _parts(document):
        if "$ref" in part:
            assert "type" not in part
        assert part.get("type") != "array" or "items" in part, part
        assert not any(each is True for each in part.get("enum", ()))
        body = part.get("requestBody", {"content": {"application/json": {}}})
        assert set(body["content"]) == {"application/json"}


def test_the_examples_are_what_happens(live: LiveNode) -> None:
    written = ""
    for route, example in examples().items():
        method, _, path = route.partition(" ")
        answer = live.call(
            method,
            path.replace("{fact_id}", written),
            json=example.get("request"),
            params=example.get("query"),
        )
        assert answer.status_code in (200, 201), answer.text
        assert _shape(answer.json()) == _shape(example["answer"]), route
        written = written or answer.json()["id"]


def _shape(value: Any) -> Any:
    """The names in an answer, without its varying values."""
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else type(value)


def _described(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """(model or place, name) of each field and parameter, with its schema."""
    for model, schema in document["components"]["schemas"].items():
        for name, field in schema.get("properties", {}).items():
            yield (model, name), field
    for methods in document["paths"].values():
        for operation in methods.values():
            for each in operation["parameters"]:
                yield (f"in-{each['in']}", each["name"]), each


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, dict | list):
            yield from _parts(inner)
