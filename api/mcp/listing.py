"""The clients' view of each tool: short schemas, since models read all of them.

A tool takes every argument of its route. The list shows those that a model needs, without defaults
and limits, which the node checks.
"""

from collections.abc import Mapping
from typing import Any

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations

from engramlog.api.mcp.arguments import TIME_TRAVEL
from engramlog.api.mcp.tools import Tool
from engramlog.api.schemas.field_texts import field_text
from engramlog.projections.normalization import SCOPES

_UNSAID = ("title", "minLength", "maxLength", "maxItems", "minItems", "pattern", "description")
_PLAIN_VALUE = {"type": ["string", "number", "boolean", "object", "null"]}
_OPEN = {"type": "object"}
_LIST = {"type": "array"}
EVERY_SCOPE = "*"
_TYPES: dict[str, dict[str, Any]] = {
    "list": _LIST,
    "text": {"type": "string"},
    "maybe text": {"type": ["string", "null"]},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "object": _OPEN,
}


def listed(tool: Tool) -> ListedTool:
    """The tool as ``tools/list`` shows it."""
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=output_schema(tool.answers),
        annotations=ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=tool.destructive if tool.writes else None,
            idempotent_hint=tool.repeatable if tool.writes else None,
            open_world_hint=False,
        ),
    )


def input_schema(tool: Tool) -> dict[str, Any]:
    """The listed arguments, each with its meaning."""
    found: dict[str, dict[str, Any]] = {}
    for model in tool.models:
        for name, part in model.model_json_schema()["properties"].items():
            found.setdefault(name, part)
    found["value"] = found["new_value"] = _PLAIN_VALUE
    found["what"] = {"type": "string", "enum": list(TIME_TRAVEL)}
    found["after"] = {"type": "integer"}
    found["detail"] = {"type": "string", "enum": ["compact", "full"], "default": "compact"}
    properties = {
        name: {**_short(found.get(name, _TYPES["text"])), "description": _meaning(tool, name)}
        for name in tool.shown
    }
    if "scope" in properties:
        scopes = [*SCOPES, EVERY_SCOPE] if tool.name == "recall" else SCOPES
        properties["scope"] |= {"type": "string", "enum": list(scopes)}
        if tool.name != "recall":
            properties["scope"]["description"] = str(field_text("scope", "mcp")).partition(" (")[0]
        properties["scope"].pop("anyOf", None)
    return {
        "type": "object",
        "properties": properties,
        "required": list(tool.required),
        "additionalProperties": False,
    }


def _meaning(tool: Tool, name: str) -> str | None:
    chooses = not tool.writes and name not in tool.required
    return field_text(name, "mcp-filter" if chooses else "mcp")


def output_schema(answers: Mapping[str, str] | None) -> dict[str, Any] | None:
    """The keys that every answer has; None for a tool that answers text."""
    if answers is None:
        return None
    return {
        "type": "object",
        "properties": {name: _TYPES[kind] for name, kind in answers.items()},
        "required": list(answers),
    }


def _short(part: Mapping[str, Any]) -> dict[str, Any]:
    """A property without the node's checks and without ``or null``."""
    kinds = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        part = {**kinds[0], **{k: v for k, v in part.items() if k != "anyOf"}}
    if "$ref" in part or "allOf" in part:
        return dict(_OPEN)
    short = {name: each for name, each in part.items() if name not in _UNSAID}
    if short.get("default", 0) in (None, "", False, 1.0) or short.get("default") == []:
        short.pop("default", None)
    short.pop("items", None)
    return short
