"""A fact in a framework's terms: a text and its metadata."""

from typing import Any

from engramlog.api.answers.recall.statements import statement_of
from engramlog.api.python.results import Fact


def text_of_fact(fact: Fact) -> str:
    """The fact as a sentence."""
    return statement_of(fact.record)


def metadata_of(fact: Fact) -> dict[str, Any]:
    """Plain values only, which every framework accepts."""
    return {
        "id": fact.id,
        "entity": fact.entity,
        "relation": fact.relation,
        "source": fact.source,
        "scope": fact.scope,
        "confidence": fact.confidence,
        "recorded_at": fact.record["timestamp"],
        "score": fact.score,
    }
