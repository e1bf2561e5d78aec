"""Which attributes are valid, and which events may set them: pure rules."""

import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAttributes

PLAIN = FactAttributes()
"""The attributes of a fact without any."""

CORE_EMOTION_MIN = 4
"""From this strength of emotion, positive or negative, a memory belongs to the core tier."""
UNTRUSTED_TRUST_MAX = 1
"""A peer's trust. Only an admin may give 2 and 3, one's own and the owner's (abmind A2.1: content
cannot raise its own)."""
CONFIDENTIAL = 2
"""The lowest classification that only the source of a fact may read."""
CONFIDENTIAL_SCOPES = frozenset({"local", "team"})
"""Scopes for such facts outside gardens: peers get the other scopes."""
LABELS_MAX = 25
LABEL_LENGTH_MAX = 32
TOPIC_LENGTH_MAX = 64
LANGUAGE_LENGTH_MAX = 35
ORIGINAL_LENGTH_MAX = 65_536
CONTEXT_LENGTH_MAX = 1_000
KEYWORDS_LENGTH_MAX = 2_000
RELEVANCE_MAX = 1_000
RELEVANCE_STEP = 10


def settled(attributes: FactAttributes) -> FactAttributes:
    """The attributes with the tier that the emotion requires."""
    if abs(attributes.emotion_score) >= CORE_EMOTION_MIN and attributes.tier != "core":
        return msgspec.structs.replace(attributes, tier="core")
    return attributes


def misplaced(attributes: FactAttributes | None, scope: str, garden: str | None) -> bool:
    """Whether a fact is too confidential for its scope and garden."""
    return (
        attributes is not None
        and attributes.classification >= CONFIDENTIAL
        and garden is None
        and scope not in CONFIDENTIAL_SCOPES
    )


def as_received(event: Recorded, attributes: FactAttributes) -> FactAttributes:
    """Attributes as taken from an event here: another node's facts get at most a peer's trust."""
    if event.peer is None or attributes.trust <= UNTRUSTED_TRUST_MAX:
        return attributes
    return msgspec.structs.replace(attributes, trust=UNTRUSTED_TRUST_MAX)


_BOUNDS = {
    "emotion_score": (-5, 5),
    "relevance": (-RELEVANCE_MAX, RELEVANCE_MAX),
    "classification": (0, 3),
    "trust": (0, 3),
    "integrity": (0, 3),
    "credibility": (1, 6),
}
_LENGTHS = {
    "memory_type": LABEL_LENGTH_MAX,
    "emotion_context": CONTEXT_LENGTH_MAX,
    "topic": TOPIC_LENGTH_MAX,
    "original": ORIGINAL_LENGTH_MAX,
    "language": LANGUAGE_LENGTH_MAX,
    "keywords": KEYWORDS_LENGTH_MAX,
}


def attributes_fault(attributes: FactAttributes) -> str | None:
    """The first invalid attribute, or None: as strict as HTTP, except for labels."""
    for name, (least, most) in _BOUNDS.items():
        if not least <= getattr(attributes, name) <= most:
            return f"{name} must be {least} to {most}"
    for name, longest in _LENGTHS.items():
        if len(getattr(attributes, name)) > longest:
            return f"{name} has over {longest} characters"
    for name in ("emotion_tags", "importance_flags"):
        labels: tuple[str, ...] = getattr(attributes, name)
        if len(labels) > LABELS_MAX or any(len(each) > LABEL_LENGTH_MAX for each in labels):
            return f"{name} are too many or too long"
    return None


def may_set(event: Recorded, fact_origin: str) -> bool:
    """Whether an event may set a fact's attributes here: one of this node, or of the node that
    stated the fact."""
    return event.peer is None or event.header.origin == fact_origin
