"""The fields' meanings: one source for ``/openapi.json`` and for the tools for models."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import TypeAlias

Texts: TypeAlias = dict[str, dict[str, str]]


@cache
def field_texts() -> Texts:
    """Model → field → text; ``shared`` has the texts for all models; ``in-path``, ``in-query`` and
    ``mcp`` have those of parameters and tool arguments."""
    document = tomllib.loads(files(__package__).joinpath("field_texts.toml").read_text("utf-8"))
    texts: Texts = {}
    for models, entries in document.items():
        for model in models.split(", "):
            texts.setdefault(model, {}).update(entries)
    return texts


def field_text(name: str, *models: str) -> str | None:
    """The meaning of ``name`` in the first of ``models`` that has one, else the shared one; None
    if it has no text."""
    texts = field_texts()
    found = (texts[model].get(name) for model in (*models, "shared") if model in texts)
    return next((text for text in found if text is not None), None)
