"""Two nodes over one log that pull the same peer at once, as when the lead changes between them."""

from collections.abc import Callable

import pytest

from engramlog.eventlog.kinds import Value
from engramlog.eventlog.signing import SignedHeads
from engramlog.replay.federation.page import StreamPage
from engramlog.replay.federation.pulling import PeerUnreachable
from tests.worlds.federation.network import Link, Member
from tests.worlds.histories import asserted

Pair = tuple[Member, Member]


def state(member: Member, text: str) -> None:
    member.submit([asserted(value=Value("text", text), scope="company")])


class Overtaken(Link):
    """A view whose client's other node acts after an answer, and before it is used."""

    after_heads: Callable[[], object] = staticmethod(lambda: None)
    after_page: Callable[[], object] = staticmethod(lambda: None)

    def heads(self) -> SignedHeads:
        found = super().heads()
        self.after_heads()
        return found

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        found = super().page(stream, after_seq, limit)
        self.after_page()
        return found


def test_a_page_that_the_other_node_took_holds_no_stream(pair: Pair) -> None:
    a, b = pair
    state(b, "one")
    link = Overtaken(a, b)
    link.after_page = lambda: a.pull(Link(a, b))
    with pytest.raises(PeerUnreachable, match="known up to 1 by now"):
        a.pull(link)
    state(b, "two")
    pulled = a.pull(Link(a, b))
    assert (pulled.events, pulled.faults) == (1, {})


def test_what_the_other_node_took_since_the_peers_statement_is_no_rollback(pair: Pair) -> None:
    a, b = pair
    state(b, "one")
    a.pull(Link(a, b))

    def overtake() -> None:
        state(b, "two")
        a.pull(Link(a, b))

    link = Overtaken(a, b)
    link.after_heads = overtake
    pulled = a.pull(link)
    assert (pulled.events, pulled.faults) == (0, {})
