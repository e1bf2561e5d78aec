"""What ``recall_quality`` prints: tables of evidence found, intervals, and what scores mean."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.question_sets import QuestionSet
from benchmarks.ranking import Answered, auc, paired_bootstrap

BASELINE = "plain BM25"
OURS = "default"
CHANCES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
Graded = dict[str, list[Answered]]
"""By system: every question of a set with an answer in the memory."""


def table_of(sets: Sequence[QuestionSet], graded: Mapping[str, Graded]) -> str:
    rows = [["system", *(f"{each.name} @{each.cut}" for each in sets)]]
    for name in graded[sets[0].name]:
        shares = [np.mean([a.found for a in graded[each.name][name]]) for each in sets]
        rows.append([name, *(f"{share:.3f}" for share in shares)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def categories(graded: Mapping[str, Graded]) -> str:
    lines = ["", "by category: default, plain BM25 (questions)"]
    for name, of in graded.items():
        for category in sorted({a.category for a in of[OURS]}):
            mine, theirs = (
                [a.found for a in of[system] if a.category == category]
                for system in (OURS, BASELINE)
            )
            shares = f"{np.mean(mine):.3f}, {np.mean(theirs):.3f} ({len(mine)})"
            lines.append(f"  {name}, {category}: {shares}")
    return "\n".join(lines)


def bootstraps(graded: Mapping[str, Graded]) -> str:
    """``default`` against every other system, with the interval of the difference."""
    lines = ["", "default is better by (95 % of paired resamples)"]
    for name, of in graded.items():
        ours = [a.found for a in of[OURS]]
        for other, got in of.items():
            if other != OURS:
                d = paired_bootstrap(ours, [a.found for a in got])
                lines.append(
                    f"  {name}: {d.mean:+.3f}  [{d.low:+.3f}, {d.high:+.3f}]  than {other}"
                )
    return "\n".join(lines)


def reliability(name: str, answers: Sequence[Answered]) -> str:
    """How often the best fact is evidence, by its score."""
    lines = ["", f"{name}: the best score, and how often that fact is evidence (questions)"]
    for low, high in pairwise(CHANCES):
        within = [a for a in answers if low <= a.score < high]
        if within:
            share = np.mean([a.first for a in within])
            lines.append(f"  {low:.1f} to {high:.1f}: {share:.2f} ({len(within)})")
    area = auc([a.score for a in answers if a.first], [a.score for a in answers if not a.first])
    return "\n".join([*lines, f"  evidence or not by the score: AUC {area:.3f}", ""])
