"""Salience in Stargraph's protocol, by the formula of the node's own rules."""

from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, Field

from engramlog.api.python.stargraph.models import Episode, instant_us
from engramlog.projections.episodes import salience

WEIGHTS = {"recency": 1.0, "relevance": 0.0, "importance": 0.0}


class SalienceContext(BaseModel):
    """The inputs of salience besides the episode itself. Recency counts from the last access."""

    last_access_ts: datetime
    query_embedding: list[float] | None = None
    access_count: int = 0
    rule_match_count: int = 0
    weights: dict[str, float] = Field(default_factory=lambda: dict(WEIGHTS))
    decay_tau_seconds: float = Field(default=salience.DAY_S, gt=0)


@runtime_checkable
class SalienceScorer(Protocol):
    """Scores episodes; ``score`` returns a number in [0, 1]."""

    async def score(self, memory: Episode, context: SalienceContext) -> float: ...


class RuleBasedScorer:
    """Recency × frequency × rule matches, without relevance and importance."""

    async def score(self, memory: Episode, context: SalienceContext) -> float:  # noqa: ARG002
        """The episode's salience, in [0, 1]."""
        return salience.salience(
            salience.SalienceContext(
                now_us=instant_us(datetime.now(UTC)),
                last_access_us=instant_us(context.last_access_ts),
                access_count=context.access_count,
                rule_match_count=context.rule_match_count,
                weights=salience.SalienceWeights(
                    recency=context.weights.get("recency", WEIGHTS["recency"])
                ),
                tau_seconds=context.decay_tau_seconds,
                frequency="mul",
            )
        )
