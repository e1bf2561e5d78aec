"""Random schedules: nodes write, contradict, retract, settle, replay each other, restart."""

import random
from pathlib import Path

from engramlog.eventlog.kinds import Parent, Value
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import conflicts
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.writing.commands import AssertFact, ResolveConflict, RetractFact
from engramlog.projections.writing.memory_commands import RecordSummary
from engramlog.replay.federation.pulling import PeerUnreachable
from tests.worlds.federation.answers import DAY_US, Answers, answers, level
from tests.worlds.federation.network import START_US, Link, Member
from tests.worlds.histories import asserted
from tests.worlds.stated_facts import stated

ENTITIES = ("stigmem://t/user/a", "stigmem://t/user/b", "user:c")
RELATIONS = ("memory:role", "tag:x", "rel:knows", "memory:city")
LONG_AFTER = "2024-06-01T00:00:00Z"
WORDS = ["atlas", "budget", "city", "ledger", "note", "plan", "role", "team", "user", "visit"]
VALUES = (
    Value("string", "A"), Value("string", "B"), Value("ref", "stigmem://t/user/a"),
    Value("number", "42.0"), Value("text", "a longer text about B"), Value("boolean", "true"),
)  # fmt: skip


def run(folder: Path, seed: int, nodes: int, moves: int = 40) -> list[Member]:
    """A network after a random schedule, when all have replayed all."""
    chance = random.Random(seed)
    members = [
        Member(folder, f"n{number}", chance.randrange(-30_000_000, 30_000_000))
        for number in range(nodes)
    ]
    for one in members:
        for other in members:
            if one is not other:
                one.meet(other)
    for _ in range(moves):
        move(chance, members)
    settle(members)
    return members


def move(chance: random.Random, members: list[Member]) -> None:
    """One random event somewhere."""
    who = chance.choice(members)
    for member in members:
        member.clock.advance(chance.randrange(1, 2_000_000))
    happens = chance.random()
    if happens < 0.05:
        who.submit([summary(chance, who)])
    elif happens < 0.45:
        who.submit([fact(chance, who)])
    elif happens < 0.55:
        retract(chance, who)
    elif happens < 0.62:
        resolve(chance, who)
    elif happens < 0.65:
        who.restart()
    else:
        other = chance.choice([member for member in members if member is not who])
        try:
            who.pull(Link(who, other, chance), pages_max=chance.randrange(1, 5))
        except PeerUnreachable:
            return


def fact(chance: random.Random, who: Member) -> AssertFact:
    made = asserted(
        entity=chance.choice(ENTITIES),
        relation=chance.choice(RELATIONS),
        value=value(chance),
        source=f"agent:{who.name}",
        scope=chance.choice(("company", "company", "public", "local")),
        confidence=chance.choice((1.0, 0.9, 0.5, 0.0)),
        valid_from=chance.choice((None, None, "2023-11-01T00:00:00Z")),
        valid_until=chance.choice((None, None, None, "2023-11-20T00:00:00Z", LONG_AFTER)),
    )
    known = who.node.reader.pin()
    if known.count and chance.random() < 0.2:
        position = int(known.from_position[chance.randrange(known.count)])
        parents = [Parent(row.cid.rpartition(":")[2]) for row in who.node.reader.rows([position])]
        made = stated(made, derived_from=parents)
    return made


def value(chance: random.Random) -> Value:
    """One of a few values, so that nodes agree and contradict each other, or a sentence."""
    if chance.random() < 0.6:
        return chance.choice(VALUES)
    return Value("text", " ".join(chance.choices(WORDS, k=chance.randrange(2, 7))))


def summary(chance: random.Random, who: Member) -> RecordSummary:
    """One of two summaries, with other paragraphs than before, or removed."""
    said = chance.sample(("one", "two", "three"), chance.randrange(1, 4))
    return RecordSummary(
        name=chance.choice(("daily/daily_2026-06-15.md", "weekly/weekly_2026-W25.md")),
        text=chance.choice(("\n\n".join(said), "\n\n".join(said), None)),
        owner=f"agent:{who.name}",
        scope=chance.choice(("company", "public")),
    )


def retract(chance: random.Random, who: Member) -> None:
    """End any fact of this node, its own or another's."""
    ids = sorted(who.node.reader.image.facts.slot_of)
    if ids:
        intent = RetractFact(
            fact_id=chance.choice(ids),
            rights=everything().narrowed(frozenset(("company", "public"))),
        )
        who.node.write(intent)


def resolve(chance: random.Random, who: Member) -> None:
    """Settle any contradiction that this node shows."""
    view = who.node.reader.pin()
    open_ones = list(
        conflicts(who.node.reader, view, everything(), who.node.moment(), status="unresolved")
    )
    if open_ones:
        chosen = chance.choice(open_ones)
        side = chance.choice((chosen.newer, chosen.older))
        (row,) = who.node.reader.rows([int(view.from_position[side])])
        intent = ResolveConflict(
            conflict_id=chosen.row.conflict_id,
            source=f"agent:{who.name}",
            rights=everything().narrowed(frozenset(("company", "public"))),
            winning_fact_id=row.id,
        )
        who.node.write(intent)


def settle(members: list[Member]) -> None:
    """All nodes replay all until nothing new comes."""
    while True:
        fresh = 0
        for one in members:
            for other in members:
                if one is not other:
                    pulled = one.pull(Link(one, other))
                    assert not pulled.faults, pulled.faults
                    fresh += pulled.events
        if not fresh:
            return


QUESTIONS = ("role in the city", "budget ledger of the team", "user:c", "longer text about B")
ASKED_US = START_US + 40 * DAY_US
SHARED = ("/company", "/public")


def shared_digests(member: Member) -> dict[str, str]:
    """Digests of the streams that all replay."""
    found = member.node.reader.ask(stream_digests)
    return {name: each for name, each in found.items() if name.endswith(SHARED)}


def answers_of(members: list[Member]) -> list[Answers]:
    """All nodes' answers, after making node-local data equal."""
    level(members, [f"agent:{member.name}" for member in members], ASKED_US)
    return [answers(member, QUESTIONS, ASKED_US) for member in members]
