"""How strong the evidence of an answer is (abmind's newer version, ``weakEvidence``).

Strong: a lexical hit that holds every keyword, or a hit above the threshold of a stage that
compares meaning; counted before the answer is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engramlog.projections.recall.stages import STAGES

if TYPE_CHECKING:
    from engramlog.projections.recall.certainty import Certainty
    from engramlog.projections.recall.profile import Profile
    from engramlog.projections.recall.ranking.chance import Chance
    from engramlog.projections.recall.stages.candidates import Candidates


def evidence_of(
    profile: Profile, hits: Mapping[str, Candidates], chance: Chance | None = None
) -> str | None:
    """``strong``, ``weak`` or ``none``; None if no stage of the profile can tell strong hits and
    the answer has no ``chance``."""
    if profile.certainty is not None:
        if not any(len(each.slots) for each in hits.values()):
            return "none"
        if chance is not None:
            return "weak" if _is_weak(profile.certainty, chance) else "strong"
    if not any(STAGES[choice.name].judges(choice.parameters) for choice in profile.stages):
        return None
    if not any(len(each.slots) for each in hits.values()):
        return "none"
    strong = any(
        each.strong and not each.strong.isdisjoint(each.slots.tolist()) for each in hits.values()
    )
    meant = any(STAGES[name].tells and len(each.slots) for name, each in hits.items())
    return "strong" if strong or meant else "weak"


def _is_weak(certainty: Certainty, chance: Chance) -> bool:
    """Whether the first fact is unlikely evidence, or the memory unlikely knows an answer."""
    if chance.chance < certainty.weak_below:
        return True
    known, answerable = certainty.answer, chance.answerable
    return known is not None and answerable is not None and answerable < known.weak_below
