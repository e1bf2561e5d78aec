"""A profile's parameters for the certainty of an answer (see ``ranking.chance``)."""

from typing import Annotated

from msgspec import Meta, Struct

Weight = Annotated[float, Meta(ge=-100, le=100)]


class AnswerKnown(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The weight of each number in the chance that the memory knows an answer at all. Under
    ``weak_below`` the evidence is weak."""

    bias: Weight
    speaker: Weight
    semantic: Weight
    missing: Weight
    weak_below: Annotated[float, Meta(ge=0, le=1)] = 0.5


class Certainty(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The weight of each number in the chance that the best fact answers the question. An answer
    with a chance under ``weak_below`` is weak evidence. ``answer`` judges the question as well."""

    bias: Weight
    semantic: Weight
    speaker: Weight
    margin: Weight
    weak_below: Annotated[float, Meta(ge=0, le=1)] = 0.3
    answer: AnswerKnown | None = None
