"""A clock that was ahead for a while and is right again holds up nothing for that long."""

from collections.abc import Callable, Iterator

import pytest

from engramlog.api.node.tasks.peering import ReplayState
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import ConsolidationRan
from engramlog.projections.moment import parse_instant
from engramlog.replay.stigmem.peer_token import LEEWAY_MS, Nonces, PeerClaims, PeerTokenError
from tests.worlds.live import LiveNode
from tests.worlds.waiting import until
from tests.worlds.webhook_receiver import Receiver

NOW_US = parse_instant("2026-03-02T12:00:00Z")
YEAR_US = 365 * 86_400 * 1_000_000
RULE = {"id": "nightly", "cadence": {"cron": "0 3 * * *"}, "scope": "local"}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW_US + YEAR_US)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(500, 204)
    yield made
    made.close()


def test_a_webhook_that_failed_meanwhile_is_tried_again(
    serve: Callable[..., LiveNode], clock: FixedClock, receiver: Receiver
) -> None:
    live = serve(clock=clock, webhooks_allow_private=True)
    body = {"target": "company", "on_change": "webhook", "delivery_address": receiver.url}
    assert live.call("POST", "/v1/subscriptions", json=body).status_code == 201
    live.state(v="x")
    deliverer = live.service().deliverer
    until(lambda: [each.failures for each in deliverer.progress()] == [1])
    clock.set(NOW_US)
    until(lambda: len(receiver.got) > 1)


def _fires(live: LiveNode) -> list[int | None]:
    payloads = [event.payload for event in live.node.log.iterate()]
    return [each.scheduled_us for each in payloads if isinstance(each, ConsolidationRan)]


def test_a_rule_runs_on_time_that_was_set_or_ran_meanwhile(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    live = serve(clock=clock, consolidation_enabled=False)
    path = "/v1/consolidation/rules/nightly"
    assert live.call("PUT", path, json=RULE).status_code < 300
    clock.advance(86_400 * 1_000_000)
    live.run(live.app_scheduler().tick())
    assert len(_fires(live)) == 1
    clock.set(NOW_US)
    live.run(live.app_scheduler().tick())
    assert len(_fires(live)) == 1  # nothing of before it was set
    for instant in ("2026-03-03T03:00:10Z", "2026-03-03T03:01:00Z", "2026-03-04T03:00:10Z"):
        clock.set(parse_instant(instant))
        live.run(live.app_scheduler().tick())
    assert _fires(live)[1:] == [
        parse_instant("2026-03-03T03:00:00Z"),
        parse_instant("2026-03-04T03:00:00Z"),
    ]


def test_a_node_that_started_meanwhile_takes_tokens_of_its_peers() -> None:
    now_ms, ahead_ms = NOW_US // 1000, YEAR_US // 1000
    nonces = Nonces(now_ms + ahead_ms)
    nonces.use(PeerClaims("peer", "here", now_ms, now_ms + 60_000, "a"), now_ms)
    with pytest.raises(PeerTokenError, match="nonce_already_seen"):
        nonces.use(PeerClaims("peer", "here", now_ms, now_ms + 60_000, "a"), now_ms)
    old_ms = now_ms - LEEWAY_MS - 1
    with pytest.raises(PeerTokenError, match="iat_too_old"):
        nonces.use(PeerClaims("peer", "here", old_ms, now_ms, "b"), now_ms + 1)


def test_no_peer_is_behind_by_less_than_nothing(
    serve: Callable[..., LiveNode], clock: FixedClock
) -> None:
    live = serve(clock=clock)
    live.service().peers.states["peer"] = ReplayState(level_at_us=clock.now_us())
    clock.set(NOW_US)
    assert "\nstigmem_replication_lag_seconds 0\n" in live.call("GET", "/metrics").text
