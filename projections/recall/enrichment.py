"""Notes beside the facts of an answer (abmind's seed, "Enrichment"). They never change the order
and use only what the answer shows.

``metadata`` lists a fact's attributes. ``timeline`` shows facts of one topic and entity by time.
``interference`` warns of facts of one topic with nearly the same words but different content.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from msgspec import Struct

from engramlog.eventlog.kinds import FactAttributes
from engramlog.projections.memories.memory_types import effective_confidence
from engramlog.projections.moment import DAY_US, format_instant

GENERAL = "general"
"""The topic of a fact without one."""
WARNING = "⚠️ Conflicts with another result — verify which is current"
OVERLAP = 0.6
"""The least share of the shorter text's words that two conflicting texts have in common."""
BODY_MAX = 80
TIMELINE_MIN = 2
CONFIDENCE_MIN, CONFIDENCE_MAX = 1.0, 5.0
"""abmind's scale; ours is 0 to 1."""

_WORDS = re.compile(r"[a-z]{3,}")
_NAME = re.compile(r"@(\w+)")
_CAPITALS = re.compile(r"\b[^\W\d_a-z]\w*(?:\s+[^\W\d_a-z]\w*)*")


class EnrichedFact(Struct, frozen=True):
    """A returned fact: its content and attributes, when it was recorded, how often earlier recalls
    returned it, and the time (microseconds) since the last of them or since its recording."""

    text: str
    attributes: FactAttributes
    confidence: float
    recorded_us: int
    recalls: int = 0
    idle_us: int = 0

    @property
    def effective_confidence(self) -> float:
        """Confidence by the type of memory, on abmind's scale of 1 to 5."""
        base = CONFIDENCE_MIN + self.confidence * (CONFIDENCE_MAX - CONFIDENCE_MIN)
        days = self.idle_us / DAY_US
        return effective_confidence(base, days, self.recalls, self.attributes.memory_type)


Beside = dict[str, Any]


def metadata(facts: Sequence[EnrichedFact]) -> list[Beside]:
    """The attributes of each fact."""
    return [
        {
            "metadata": {
                "memory_type": each.attributes.memory_type,
                "topic": each.attributes.topic,
                "tier": each.attributes.tier,
                "emotion_tags": list(each.attributes.emotion_tags),
                "emotion_score": each.attributes.emotion_score,
                "importance_flags": list(each.attributes.importance_flags),
                "trust": each.attributes.trust,
                "integrity": each.attributes.integrity,
                "credibility": each.attributes.credibility,
                "classification": each.attributes.classification,
                "original": each.attributes.original,
                "confidence": each.confidence,
                "effective_confidence": each.effective_confidence,
                "created_at": format_instant(each.recorded_us),
            }
        }
        for each in facts
    ]


def timeline(facts: Sequence[EnrichedFact]) -> list[Beside]:
    """Beside each fact, those of the same topic and entity in order of time."""
    groups: dict[tuple[str, str], list[int]] = {}
    for n, each in enumerate(facts):
        if each.attributes.topic != GENERAL:
            key = (each.attributes.topic, primary_entity(each.text))
            groups.setdefault(key, []).append(n)
    beside: list[Beside] = [{} for _ in facts]
    for (topic, entity), members in groups.items():
        if len(members) >= TIMELINE_MIN:
            by_age = sorted((facts[n] for n in members), key=lambda each: each.recorded_us)
            line = _line(topic, entity, by_age)
            for n in members:
                beside[n]["timeline_context"] = line
    return beside


def interference(facts: Sequence[EnrichedFact]) -> list[Beside]:
    """A warning beside both of each conflicting pair."""
    beside: list[Beside] = [{} for _ in facts]
    words = [frozenset(_WORDS.findall(each.text.lower())) for each in facts]
    for one, other in combinations(range(len(facts)), 2):
        first, second = facts[one], facts[other]
        if first.attributes.topic != second.attributes.topic or first.text == second.text:
            continue
        shorter = min(len(words[one]), len(words[other]))
        if shorter and len(words[one] & words[other]) / shorter > OVERLAP:
            for n in (one, other):
                beside[n]["interference_warning"] = WARNING
    return beside


def primary_entity(text: str) -> str:
    """The first ``@name`` of a text, else its first capitalised words in lower case, or ``_``."""
    named = _NAME.search(text)
    if named is not None:
        return named.group(1).lower()
    capitals = _CAPITALS.search(text)
    return "_" if capitals is None else capitals.group().lower()


ENRICHMENTS: dict[str, Callable[[Sequence[EnrichedFact]], list[Beside]]] = {
    "metadata": metadata,
    "timeline": timeline,
    "interference": interference,
}


def enrich(names: Sequence[str], facts: Sequence[EnrichedFact]) -> list[Beside]:
    """All notes beside each fact."""
    beside: list[Beside] = [{} for _ in facts]
    for name in names:
        for all_of_one, part in zip(beside, ENRICHMENTS[name](facts), strict=True):
            all_of_one.update(part)
    return beside


def _line(topic: str, entity: str, members: Sequence[EnrichedFact]) -> str:
    bodies = [f"{_body(each)}({_month(each)})" for each in members]
    feelings = "→".join(f"{each.attributes.emotion_score:+d}" for each in members)
    current = _body(members[-1])
    return f"[TL|{topic}|{entity}] {'→'.join(bodies)}\narc: {feelings} | current: {current}"


def _body(each: EnrichedFact) -> str:
    text = " ".join(each.text.split())
    return text if len(text) <= BODY_MAX else f"{text[: BODY_MAX - 1]}…"


def _month(each: EnrichedFact) -> str:
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return names[datetime.fromtimestamp(each.recorded_us / 1e6, UTC).month - 1]
