"""From a fact to its embedded text, and from a model's vector to the stored one."""

import hashlib
from pathlib import Path

import numpy as np
from msgspec import Struct, json

from engramlog.projections.arrays import F32
from engramlog.projections.embedding.errors import WrongDimensions
from engramlog.projections.embedding.providers.models import MODELS, ModelCard
from engramlog.projections.embedding.providers.provider import unit_rows
from engramlog.projections.normalization import entity_display

RECIPE = "fact/1"
"""Name of the rule in ``composed``; another rule needs another name."""


def composed(entity: str, relation: str, value_v: str) -> str:
    """``{entity_display} {relation} {value_text}`` (seed §20.2.2): the last segment of the
    entity's URI, the relation label, and the value's canonical text."""
    return f"{entity_display(entity)} {relation} {value_v}"


class Space(Struct, frozen=True):
    """Vectors of one space are comparable: one model, used in one way. ``truncated``: the number of
    dimensions kept of a Matryoshka model's, None for all."""

    provider: str
    model: str
    dimensions: int
    truncated: int | None = None
    recipe: str = RECIPE

    @property
    def stored_dimensions(self) -> int:
        return self.dimensions if self.truncated is None else self.truncated

    def __str__(self) -> str:
        cut = "" if self.truncated is None else f" cut to {self.truncated}"
        return f"{self.provider} {self.model} ({self.dimensions} dimensions{cut})"


def vectors_file(space: Space) -> str:
    """The name of the table of a space's vectors, in the data directory."""
    return f"vectors-{hashlib.sha256(json.encode(space)).hexdigest()[:12]}.db"


def bundled_model(folder: Path) -> str | None:
    """The bundled model that the vectors of a data directory are of, None if they are of none."""
    for model, card in MODELS["minilm"].items():
        if (folder / vectors_file(Space("minilm", model, card.dimensions))).exists():
            return model
    return None


def check_truncation(card: ModelCard, model: str, truncated: int | None) -> None:
    """Raises WrongDimensions if the model's vectors may not be cut to so few dimensions."""
    if truncated is None:
        return
    if card.floor is None:
        raise WrongDimensions(f"vectors of {model} cannot be truncated")
    if not card.floor <= truncated < card.dimensions:
        raise WrongDimensions(
            f"truncated_dimensions is {truncated}; {model} takes {card.floor} to"
            f" {card.dimensions - 1}"
        )


def truncate(rows: F32, space: Space, card: ModelCard) -> F32:
    """The first ``space.truncated`` numbers of each row, again of unit length."""
    if space.truncated is None:
        return rows
    if card.centred:
        rows = rows - np.mean(rows, axis=1, keepdims=True)
    cut = np.ascontiguousarray(rows[:, : space.truncated])
    return unit_rows(cut, len(rows), space.truncated)
