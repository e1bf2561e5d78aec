"""An erasure in any stream explains a missing payload; until then its stream waits."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from engramlog.eventlog.kinds import PeerGrants, PeerStateSet, Value
from engramlog.eventlog.signing import SignedHeads
from engramlog.projections.tables.peers.peers import load_peer_streams
from engramlog.projections.tables.peers.remote_retractions import waiting_ends
from engramlog.projections.writing.commands import Done, EraseFacts
from engramlog.projections.writing.peer_commands import TakeForeignEnds
from engramlog.replay.federation.missing_payloads import ERASURE_WAIT_SECONDS
from engramlog.replay.federation.page import StreamPage
from engramlog.replay.federation.serving import signed_streams
from engramlog.replay.verify import verify
from tests.worlds.federation.network import SCOPES, Link, Member
from tests.worlds.federation.schedules import shared_digests
from tests.worlds.histories import asserted

ERASES = PeerGrants(scopes=list(SCOPES), erase_foreign=True)
PLAIN = PeerGrants(scopes=list(SCOPES))

Three = tuple[Member, Member, Member]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    """``a`` and ``b`` erase each other's facts; ``c`` has ``b`` as a peer, and not yet ``a``."""
    a, b, c = (Member(tmp_path, name) for name in "abc")
    a.meet(b, ERASES)
    b.meet(a, ERASES)
    b.meet(c, PLAIN)
    c.meet(b, PLAIN)
    yield a, b, c
    for each in (a, b, c):
        each.close()


def state(member: Member, text: str) -> str:
    intent = asserted(value=Value("string", text), source="agent:t", scope="company")
    (outcome,) = member.submit([intent]).outcomes
    assert isinstance(outcome, Done)
    assert outcome.fact_id is not None
    return outcome.fact_id


def erase(member: Member, fact: str) -> None:
    (done,) = member.node.write(EraseFacts(erasure_id=str(uuid4()), fact_ids=(fact,)))
    assert isinstance(done, Done), done


def stream_of(member: Member) -> str:
    return f"{member.id}/1/scope/company"


class Upto(Link):
    """Shows so many events of each stream, like a node of an older release that does not name
    others' erasures in its own stream."""

    def __init__(self, client: Member, server: Member, last: int) -> None:
        super().__init__(client, server)
        self._last = last

    def heads(self) -> SignedHeads:
        server = self.server
        (stored,) = server.node.log.read_stream(stream_of(server), self._last - 1, 1)
        head = server.node.log.stream_heads()[stream_of(server)]
        shown = type(head)(head.stream, self._last, stored.hash)
        return signed_streams(server.node.identity, {head.stream: shown}, server.clock.now_us())

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        if after_seq >= self._last:
            return None
        return super().page(stream, after_seq, min(limit, self._last - after_seq))


def erased_by_another(a: Member, b: Member) -> None:
    """``b`` states two facts; ``a`` erases the first."""
    fact = state(b, "goes")
    state(b, "stays")
    a.pull(Link(a, b))
    erase(a, fact)
    b.pull(Link(b, a))
    assert fact not in b.node.reader.image.facts.slot_of


def test_a_node_names_a_peers_erasures_in_its_own_stream(three: Three) -> None:
    a, b, c = three
    erased_by_another(a, b)
    pulled = c.pull(Link(c, b))
    assert (pulled.faults, pulled.waiting) == ({}, {})
    assert c.node.reader.ask(waiting_ends) == {}, "the fact came erased"
    assert verify(c.node.log).fault is None
    assert shared_digests(c)[stream_of(b)] == shared_digests(b)[stream_of(b)]
    assert c.node.rebuild().digest == c.digests().local
    a.pull(Link(a, b))  # the erasure's own erasure changes nothing
    assert shared_digests(a)[stream_of(b)] == shared_digests(b)[stream_of(b)]


def test_an_end_waits_only_for_facts_that_are_here(three: Three) -> None:
    a, b, c = three
    fact = state(b, "goes")
    a.meet(c, PLAIN)
    c.meet(a, PLAIN)
    for member in (a, c):
        member.pull(Link(member, b))
    erase(a, fact)
    c.pull(Link(c, a))
    assert c.node.reader.ask(waiting_ends) == {a.id: {"erased": 1}}
    b.pull(Link(b, a))
    c.pull(Link(c, b))
    assert fact not in c.node.reader.image.facts.slot_of
    assert c.node.reader.ask(waiting_ends) == {}


def test_a_stream_waits_for_an_erasure_from_another_peer(three: Three) -> None:
    a, b, c = three
    erased_by_another(a, b)
    pulled = c.pull(Upto(c, b, 2))
    assert not pulled.faults
    assert "1 payloads are missing" in pulled.waiting[stream_of(b)]
    assert stream_of(b) not in c.node.log.stream_heads()
    a.meet(c, PLAIN)
    c.meet(a, ERASES)
    c.pull(Link(c, a))
    pulled = c.pull(Upto(c, b, 2))
    assert (pulled.waiting, pulled.events) == ({}, 2)
    assert verify(c.node.log).fault is None


def test_an_erasure_counts_only_by_grant_and_a_held_stream_continues_by_itself(
    three: Three,
) -> None:
    a, b, c = three
    erased_by_another(a, b)
    a.meet(c, PLAIN)
    c.meet(a, PLAIN)
    c.pull(Link(c, a))
    assert c.pull(Upto(c, b, 2)).waiting
    for each in three:
        each.clock.advance((ERASURE_WAIT_SECONDS + 1) * 1_000_000)
    assert "withheld" in c.pull(Upto(c, b, 2)).faults[stream_of(b)]
    at = c.node.log.head().position
    assert c.pull(Upto(c, b, 2)).waiting
    assert c.node.log.head().position == at, "held only once"
    c.submit([PeerStateSet(peer_id="peer-a", grants=ERASES), TakeForeignEnds()])
    assert c.pull(Upto(c, b, 2)).events == 2
    assert not [each for each in c.node.reader.ask(load_peer_streams) if each.held]


def test_an_erasure_after_signed_heads_holds_no_stream(three: Three) -> None:
    _, b, c = three
    fact = state(b, "goes")
    state(b, "stays")

    class Late(Link):
        def heads(self) -> SignedHeads:
            signed = super().heads()
            erase(b, fact)
            return signed

    pulled = c.pull(Late(c, b))
    assert (pulled.faults, pulled.waiting) == ({}, {})
    assert pulled.events == 3
    assert verify(c.node.log).fault is None


def test_many_pages_are_read_ahead_once(three: Three) -> None:
    a, b, c = three
    facts = [state(b, f"fact {n}") for n in range(12)]
    for fact in facts[:6]:
        erase(b, fact)
    asked: list[int] = []

    class Small(Link):
        def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
            asked.append(after_seq)
            return super().page(stream, after_seq, 2)

    assert c.pull(Small(c, b)).events == 18
    assert len(asked) <= 2 * 9
    assert verify(c.node.log).fault is None
    assert a.id not in str(c.node.log.stream_heads())


def test_a_node_starts_between_a_page_and_the_one_with_its_erasure(three: Three) -> None:
    _, b, c = three
    fact = state(b, "goes")
    state(b, "stays")
    erase(b, fact)

    class Single(Link):
        def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
            return super().page(stream, after_seq, 1)

    assert not c.pull(Single(c, b), pages_max=1).complete
    c.restart()
    assert c.pull(Single(c, b)).events == 2
    assert verify(c.node.log).fault is None
