"""Random schedules of a network of nodes: how many end in agreement.

Each schedule is a seed. Two to five nodes with skewed clocks write, derive, contradict each other,
retract and settle one another's facts, and restart. They replay each other over links that fail,
with pages that end anywhere. Then all replay all, and their streams' digests must be equal; so must
lists of facts and recall answers (ids, scores, order), once trust, access counts, decay and the
instant are. ``--congress`` splits the congress stream among four origins.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Figure, Stopwatch, say, table
from tests.worlds.federation.answers import Answers, differences
from tests.worlds.federation.congress import DATA, Split
from tests.worlds.federation.network import Member
from tests.worlds.federation.schedules import answers_of, run, shared_digests

SCHEDULES = 1_000
CONGRESS_CHANGES = 120_351
CONGRESS_ORIGINS = 4


def measure(facts: int) -> list[Figure]:
    """Figures for a hundredth of ``facts`` schedules (1,000 by default)."""
    return measure_schedules(max(10, facts // 100))


def measure_schedules(count: int, first: int = 0) -> list[Figure]:
    """Figures for ``count`` schedules from seed ``first`` on."""
    watch = Stopwatch()
    equal = answered = rebuilt = 0
    for seed in range(first, first + count):
        if seed % 50 == 0:
            say(f"schedule {seed - first:,} of {count:,}")
        with tempfile.TemporaryDirectory(prefix="engramlog-schedule-") as name:
            members = run(Path(name), seed, nodes=2 + seed % 4)
            same = _digests_equal(members)
            alike = _answers_equal(answers_of(members))
            if not (same and alike):
                say(f"schedule {seed}: the nodes differ in {'answers' if same else 'digests'}")
            equal, answered = equal + same, answered + alike
            if seed % 10 == 0:
                rebuilt += all(
                    member.node.rebuild().digest == member.digests().local for member in members
                )
            for member in members:
                member.close()
    say(f"equal digests: {equal:,} of {count:,}; equal answers: {answered:,} of {count:,}")
    tenth = len([seed for seed in range(first, first + count) if seed % 10 == 0])
    return [
        Figure("schedules with equal digests", 100 * equal / count, "%", aim="100 %"),
        Figure("schedules with equal lists and recall", 100 * answered / count, "%", aim="100 %"),
        Figure("of every tenth, rebuilt equal", 100 * rebuilt / max(1, tenth), "%"),
        Figure("schedules", count / watch.seconds, "/s"),
    ]


def measure_congress(changes: int, origins: int = CONGRESS_ORIGINS) -> list[Figure]:
    """Figures for the first ``changes`` of the congress stream, stated by several origins."""
    if not DATA.exists():
        say(f"congress: skipped, {DATA} is not here")
        return []
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="engramlog-congress-") as name:
        split = Split(Path(name), seed=1, origins=origins)
        say(f"{changes:,} changes, stated by {origins} origins")
        split.tell(changes)
        seconds = watch.seconds
        same = _digests_equal(split.members)
        right = sum(split.held(member) == split.wanted() for member in split.members)
        alike = _answers_equal(split.answers())
        split.close()
    say(f"equal digests: {same}; as the data says: {right} of {origins}; equal answers: {alike}")
    return [
        Figure(f"congress, {origins} origins: digests equal", 100.0 * same, "%", aim="100 %"),
        Figure("nodes whose live facts are the data's", 100 * right / origins, "%", aim="100 %"),
        Figure("lists and recall equal", 100.0 * alike, "%", aim="100 %"),
        Figure("changes stated and replayed by all", changes / seconds, "/s"),
    ]


def _digests_equal(members: Sequence[Member]) -> bool:
    first, *others = [shared_digests(member) for member in members]
    return all(each == first for each in others)


def _answers_equal(found: Sequence[Answers]) -> bool:
    first, *others = found
    return not any(differences(first, each) for each in others)


def main() -> None:
    """Run the requested schedules, and the congress stream."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.federation_schedules")
    parser.add_argument("--count", type=int, default=SCHEDULES, help="number of schedules (1000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (0)")
    parser.add_argument(
        "--congress", type=int, nargs="?", const=CONGRESS_CHANGES, default=0, metavar="CHANGES",
        help="also split this many congress changes (default: all) among four origins",
    )  # fmt: skip
    args = parser.parse_args()
    figures = measure_schedules(args.count, args.first) if args.count else []
    if args.congress:
        figures += measure_congress(args.congress)
    print(table(figures), flush=True)


if __name__ == "__main__":
    main()
