"""Random schedules with every fault between peers.

Besides the moves of ``schedules``: erasures, gardens, episodes, large events, clocks up to 400 s
apart from ours, late and withdrawn grants, and peers that lie. With ``more``, tombstones are set,
revoked, requested and lied about, and a replica follows the first node. In the end all nodes get
every grant, streams held because of lies are released, and all replay all.
"""

import random
from contextlib import closing
from pathlib import Path
from uuid import UUID

import msgspec

from engramlog.api.node.node import Node
from engramlog.eventlog.codec import decode_header
from engramlog.eventlog.kinds import (
    EpisodeRecorded,
    GardenCreated,
    PeerGrants,
    PeerStateSet,
    Value,
)
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.tables.facts.tombstones import tombstones_digest, tombstones_in_force
from engramlog.projections.tables.peers.peers import load_peer_streams
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.memory_commands import RecordEpisodes
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.federation.page import Row, StreamPage
from engramlog.replay.federation.pulling import PeerUnreachable
from engramlog.replay.verify import verify
from tests.worlds.federation.answers import differences
from tests.worlds.federation.copies import Copy
from tests.worlds.federation.network import GRANTS, SCOPES, START_US, Link, Member
from tests.worlds.federation.schedules import ENTITIES, answers_of, fact, move, settle
from tests.worlds.federation.tombstones import ask, bury, revoke
from tests.worlds.histories import asserted
from tests.worlds.stated_facts import stated

GARDEN = "0f9e3a52-7c1d-4b8e-9f60-2a5d4c3b1e07"
SKEW_US_MAX = 400_000_000
LARGE = 1_000_000
EVERYTHING = msgspec.structs.replace(GRANTS, gardens=[GARDEN], erase_foreign=True)
LESS = (
    PeerGrants(scopes=["company"]),
    PeerGrants(scopes=list(SCOPES), gardens=[GARDEN]),
    PeerGrants(scopes=["public"], erase_foreign=True),
)
LIES = ("altered", "withheld", "claims erased", "gap", "repeated", "other stream", "cut off")


def run_hard(
    folder: Path, seed: int, nodes: int, moves: int = 50, *, more: bool = False
) -> list[Member]:
    """A network after a random schedule, when all have replayed all."""
    chance = random.Random(seed)
    besides = random.Random(f"{seed} besides")  # the schedule is the same with and without it
    members = [
        Member(folder, f"n{number}", chance.randrange(-SKEW_US_MAX, SKEW_US_MAX))
        for number in range(nodes)
    ]
    for one in members:
        one.submit([_garden(one)])
        for other in members:
            if one is not other:
                one.meet(other, chance.choice((EVERYTHING, EVERYTHING, *LESS)))
    copy = Copy(folder / "copy", members[0].node) if more else None
    for _ in range(moves):
        _hard_move(chance, members)
        if copy is not None:
            _move_besides(besides, members, copy)
    for member in members:
        member.clock.advance(4 * SKEW_US_MAX)
        if more and besides.random() < 0.7:
            revoke(besides, member)
    _grant_everything(members)
    settle(members)
    if copy is not None:
        _settle_besides(members, copy)
    return members


def _grant_everything(members: list[Member]) -> None:
    """Grant all to all, and release what is held."""
    for one in members:
        for other in members:
            if one is not other:
                _grant(one, other, EVERYTHING)
        for stream in one.node.reader.ask(load_peer_streams):
            if stream.held:
                names = {each.node_id: each.peer_id for each in one.node.reader.peers}
                peer_id = names[stream.node_id]
                one.submit([PeerStateSet(peer_id=peer_id, stream=stream.stream, held=False)])


def _settle_besides(members: list[Member], copy: Copy) -> None:
    """All replay all tombstones; the replica has everything of its primary."""
    while any(ask(one, other) for one in members for other in members if one is not other):
        pass
    copy.follow(members[0].node, members[0].clock)
    with closing(Node.open(copy.folder, clock=members[0].clock)) as replica:
        assert replica.reader.digests().local == members[0].digests().local


def _move_besides(chance: random.Random, members: list[Member], copy: Copy) -> None:
    who, other = chance.sample(members, 2)
    happens = chance.random()
    if happens < 0.06:
        bury(chance, who, ENTITIES)
    elif happens < 0.12:
        revoke(chance, who)
    elif happens < 0.22:
        ask(who, other)
    elif happens < 0.26:
        ask(who, other, chance)
    elif happens < 0.32:
        first = members[0]
        copy.follow(first.node, first.clock, steps=chance.randrange(1, 4), page=7)


def _hard_move(chance: random.Random, members: list[Member]) -> None:
    who = chance.choice(members)
    other = chance.choice([member for member in members if member is not who])
    happens = chance.random()
    if happens < 0.07:
        _erase(chance, who)
    elif happens < 0.11:
        who.submit([_episode(chance, who)])
    elif happens < 0.16:
        made = fact(chance, who)
        if made.fact.scope == "company":  # the garden's; the content id covers the scope
            who.submit([stated(made, garden_id=GARDEN)])
    elif happens < 0.18:
        large = Value("text", chance.choice("ab") * LARGE)
        who.submit([asserted(value=large, source=f"agent:{who.name}", scope="company")])
    elif happens < 0.24:
        _grant(who, other, chance.choice((EVERYTHING, *LESS)))
    elif happens < 0.32:
        try:
            who.pull(Liar(who, other, chance))
        except PeerUnreachable:
            return
    else:
        move(chance, members)


def _garden(who: Member) -> GardenCreated:
    return GardenCreated(
        garden_id=GARDEN, slug="shared", name="shared", scope="company",
        created_by=f"agent:{who.name}",
    )  # fmt: skip


def _grant(who: Member, other: Member, grants: PeerGrants) -> None:
    changed = PeerStateSet(peer_id=f"peer-{other.name}", grants=grants)
    who.submit([changed, TakeForeignEnds()])


def _erase(chance: random.Random, who: Member) -> None:
    """Erase any fact of this node, its own or another's."""
    ids = sorted(who.node.reader.image.facts.slot_of)
    name = str(UUID(int=chance.getrandbits(128)))
    if ids:
        who.node.write(EraseFacts(erasure_id=name, fact_ids=(chance.choice(ids),)))


def _episode(chance: random.Random, who: Member) -> RecordEpisodes:
    said = EpisodeRecorded(
        user="ann", session=f"s{chance.randrange(3)}", agent=who.name,
        content=f"said {chance.randrange(1_000)}", at_us=START_US + chance.randrange(10**9),
        scope=chance.choice(("company", "public")),
    )  # fmt: skip
    return RecordEpisodes(episodes=(said,))


class Liar(Link):
    """A peer that tells one lie in each page."""

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        found = super().page(stream, after_seq, limit)
        if found is None or self._chance is None:
            return found
        return _lied(found, self._chance)


def _lied(page: StreamPage, chance: random.Random) -> StreamPage:
    replace = msgspec.structs.replace
    lie, rows = chance.choice(LIES), list(page.events)
    at = chance.randrange(len(rows))
    header, digest, salt, payload = rows[at]
    gone: Row = (header, digest, None, None)
    if lie == "altered" and payload is not None:
        rows[at] = (header, digest, salt, payload + b" ")
    elif lie in ("withheld", "claims erased"):
        rows[at] = gone
        if lie == "claims erased":
            return replace(page, events=rows, erased=[decode_header(header).event_id])
    elif lie == "gap":
        del rows[at]
    elif lie == "repeated":
        rows.insert(at, rows[at])
    elif lie == "other stream":
        return replace(page, stream=page.stream + "x")
    elif lie == "cut off":
        rows = rows[:-1]
    return replace(page, events=rows)


def hard_digests(member: Member) -> dict[str, str]:
    """Digests of the streams that all replay, the garden's too, and of the tombstones."""
    found = member.node.reader.ask(stream_digests)
    shared = ("/company", "/public", f"/garden/{GARDEN}")
    stones = tombstones_digest(member.node.reader.ask(tombstones_in_force), SCOPES)
    return {name: each for name, each in found.items() if name.endswith(shared)} | {
        "tombstones": stones
    }


def hard_faults(members: list[Member], *, rebuilt: bool) -> list[str]:
    """What nodes disagree on after a schedule, or hold in damaged form. ``rebuilt``: whether to
    compare their tables with rebuilt ones as well."""
    faults = [
        f"the log of {member.name}: {fault}"
        for member in members
        if (fault := verify(member.node.log).fault) is not None
    ]
    first, *others = [hard_digests(member) for member in members]
    faults += [
        f"{member.name} differs in {name}"
        for member, each in zip(members[1:], others, strict=True)
        for name in sorted(first.keys() | each.keys())
        if first.get(name) != each.get(name)
    ]
    said, *rest = answers_of(members)
    faults += [
        f"{member.name} answers otherwise: {difference}"
        for member, each in zip(members[1:], rest, strict=True)
        for difference in differences(said, each)
    ]
    if rebuilt:
        faults += [
            f"{member.name}: rebuilt tables differ"
            for member in members
            if member.node.rebuild().digest != member.digests().local
        ]
    return faults
