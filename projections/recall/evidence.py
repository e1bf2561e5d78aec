"""How sure what the stages found makes us (abmind's newer version, ``weakEvidence``).

Strong is a lexical hit that holds all that was asked for, and whatever passed the threshold of
a stage that compares likeness; all counted before the answer is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from projections.recall.stages import STAGES

if TYPE_CHECKING:
    from projections.recall.candidates import Candidates
    from projections.recall.profile import Profile


def evidence_of(profile: Profile, hits: Mapping[str, Candidates]) -> str | None:
    """``strong``, ``weak`` or ``none``; None where no stage of the profile tells strong hits
    from weak ones."""
    if not any(STAGES[choice.name].judges(choice.parameters) for choice in profile.stages):
        return None
    if not any(len(each.slots) for each in hits.values()):
        return "none"
    strong = any(
        each.strong and not each.strong.isdisjoint(each.slots.tolist()) for each in hits.values()
    )
    meant = any(STAGES[name].tells and len(each.slots) for name, each in hits.items())
    return "strong" if strong or meant else "weak"
