"""What a field means, in words: one source for ``/openapi.json`` and for the tools for models."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TypeAlias

Texts: TypeAlias = dict[str, dict[str, str]]


@cache
def field_texts() -> Texts:
    """Model → field → text; ``shared`` holds the texts of fields that mean the same everywhere,
    ``in-path``, ``in-query`` and ``mcp`` those of parameters and of arguments of tools."""
    document = tomllib.loads(files(__package__).joinpath("field_texts.toml").read_text("utf-8"))
    texts: Texts = {}
    for models, entries in document.items():
        for model in models.split(", "):
            texts.setdefault(model, {}).update(entries)
    return texts


def field_text(name: str, model: str) -> str | None:
    """What ``name`` means in ``model``; None if nothing says so."""
    texts = field_texts()
    return texts.get(model, {}).get(name) or texts["shared"].get(name)
