"""Finding subscriptions takes no longer for those of others."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import SubscriptionSet
from engramlog.projections.tables.declared.subscriptions import (
    pushed_subscriptions,
    subscription_named,
    subscriptions_of,
)
from engramlog.projections.writing.commands import Subscribe
from tests.worlds.counted_work import sql_work

OTHERS = 2_000


def subscribe(number: int, subscriber: str, address: str) -> Subscribe:
    return Subscribe(
        subscription=SubscriptionSet(
            subscription_id=f"s-{number}",
            subscriber=subscriber,
            target="company",
            target_kind="scope",
            on_change="wake",
            delivery_address=address,
            event_types=["fact_asserted"],
        ),
        most=OTHERS,
    )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path: Path = tmp_path_factory.mktemp("subscriptions")
    node = Node.open(path / "data")
    others = (subscribe(n, f"agent:a{n}", "agent:me") for n in range(OTHERS))
    node.write(*others)
    node.write(subscribe(OTHERS, "agent:me", "HTTPS://t.example/in"))
    node.write(subscribe(OTHERS + 1, "agent:me", "agent:me"))
    yield node
    node.close()


@pytest.mark.parametrize(
    ("find", "found"),
    [
        (lambda db: subscriptions_of(db, "agent:me"), [f"s-{OTHERS}", f"s-{OTHERS + 1}"]),
        (lambda db: [subscription_named(db, "s-7", "agent:a7")], ["s-7"]),
        (lambda db: [subscription_named(db, "s-7", "agent:me")], [None]),
    ],
)
def test_a_subscriber_finds_its_own_without_reading_others(
    node: Node, find: Callable[[apsw.Connection], list[object]], found: list[str]
) -> None:
    node.reader.image.tail.settle()
    with node.reader.pool.connection() as db:
        assert [getattr(row, "id", None) for row in find(db)] == found
        assert sql_work(db, find) < OTHERS // 100


def test_deliveries_read_only_subscriptions_with_an_address(node: Node) -> None:
    assert [row.id for row in node.reader.ask(pushed_subscriptions)] == [f"s-{OTHERS}"]
