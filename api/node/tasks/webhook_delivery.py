"""Webhooks: one task per subscription delivers at least once and in order, backs off, and gives up
in the end. A file has each one's progress. The log gets a note of it every ``NOTE_SECONDS``, with
which another node continues: a promoted replica, or the next to lead over a shared log.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
from msgspec.structs import replace

from engramlog.api.answers.subscription_messages import (
    is_still_due,
    notices_after,
    rights_of,
    secret_of,
    signature_of,
    webhook_body,
)
from engramlog.api.client.webhook_addresses import PublicResolver, address_fault
from engramlog.api.http.state.commit_watch import CommitWatch
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.task import LoopTask, TaskStatus
from engramlog.api.node.tasks.touched_targets import TouchedTargets, touched_after
from engramlog.api.settings import Settings
from engramlog.eventlog.kinds import WebhookProgress, WebhooksDelivered
from engramlog.projections.audit.subscription_events import Notice
from engramlog.projections.authorization import Authorization
from engramlog.projections.tables.declared.subscriptions import (
    LEDGER_NAME,
    Delivered,
    DeliveryLedger,
    SubscriptionRow,
    pushed_subscriptions,
)
from engramlog.projections.writing.commands import Unsubscribe

ACTOR = "system:engramlog:subscriptions"
LOOK_SECONDS = 0.5
WAIT_SECONDS = 20.0
ATTEMPT_SECONDS = 10.0
BACKOFF_SECONDS_MAX = 300.0
CIRCUIT_FAILURES = 10
CIRCUIT_SECONDS = 300.0
NOTE_SECONDS = 60.0
NOTE_POSITIONS = 10_000
"""A subscription without deliveries is noted after as many positions, which it need not read
again."""
RETRY_SECONDS = 30.0
"""Delay after a fault of this node."""
GONE = 410
READING = "the log"
"""The child that reads for all."""

_log = logging.getLogger(__name__)


class WebhookDelivery(LoopTask):
    def __init__(self, node: Node, settings: Settings, commits: CommitWatch) -> None:
        super().__init__("webhooks")
        self._node = node
        self._settings = settings
        self._commits = commits
        self._session: aiohttp.ClientSession | None = None
        self._opened: DeliveryLedger | None = None
        self._unnoted: dict[str, int] = {}
        """The position of the last delivery since the last note in the log, by subscription."""
        self._targets = TouchedTargets(0)

    @property
    def ledger(self) -> DeliveryLedger:
        if self._opened is None:
            self._opened = DeliveryLedger(self._node.directory.path / LEDGER_NAME)
        return self._opened

    def progress(self) -> list[Delivered]:
        """How far each webhook subscription was delivered; none on a node that delivers none."""
        if not self._node.leads:
            return []
        known = self.ledger.every()
        rows = self._node.reader.ask(pushed_subscriptions)
        return [self._furthest(row, known.get(row.id)) for row in rows]

    def delivered(self, row: SubscriptionRow) -> Delivered:
        return self._furthest(row, self.ledger.get(row.id))

    def _furthest(self, row: SubscriptionRow, known: Delivered | None) -> Delivered:
        """The progress in this node's file, or in the log if another node came further; and beyond
        the events that do not touch its target."""
        here = Delivered(row.position) if known is None else known
        at = self._targets.passed(row.id, max(here.position, row.delivered_to))
        return replace(here, position=at)

    async def start(self) -> None:
        private = self._settings.webhooks_allow_private
        connector = aiohttp.TCPConnector(resolver=PublicResolver(private=private))
        timeout = aiohttp.ClientTimeout(total=ATTEMPT_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        await super().start()

    async def stop(self) -> None:
        """Stop. Deliveries posted but not in the file repeat after the next start."""
        await super().stop()
        if self._node.leads:
            await self._note()
        if self._session is not None:
            await self._session.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def status(self) -> TaskStatus:
        own = super().status()
        if self._node.replica is not None:  # it leaves deliveries to its primary
            return TaskStatus(self.name, "off")
        return (
            TaskStatus(self.name, "idle") if own.state == "running" and not self.children else own
        )

    async def run(self) -> None:
        rows: list[SubscriptionRow] = []
        seen: int | None = None
        noted = monotonic()
        while True:
            if not self._node.leads:
                for task in self.children.values():
                    task.cancel()
                self.children.clear()
                self._unnoted.clear()
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if monotonic() >= noted + NOTE_SECONDS:
                await self._note()
                noted = monotonic()
            position = self._node.reader.image.position
            if position != seen:
                rows = await asyncio.to_thread(self._node.reader.ask, pushed_subscriptions)
                seen = position
            wanted = {row.id: row for row in rows}
            for name in [name for name in self.children if name not in (*wanted, READING)]:
                self.children.pop(name).cancel()
                self._targets.forget(name)
                self.ledger.forget(name)
            if not wanted and READING in self.children:
                self.children.pop(READING).cancel()
            if wanted and READING not in self.children:
                self._targets = TouchedTargets(self._node.reader.image.position)
                self._begin(READING, self._read)
            for name, row in wanted.items():
                if name not in self.children:
                    self._targets.watch(row)
                    self._begin(name, partial(self._follow, row))
            await asyncio.sleep(LOOK_SECONDS)

    async def _note(self) -> None:
        """Note in the file how far subscriptions have come, and in the log those with new
        deliveries and those that have come far since."""
        try:
            rows = await asyncio.to_thread(self._node.reader.ask, pushed_subscriptions)
            known = self.ledger.every() if rows else {}
            taken, progress = dict(self._unnoted), list[WebhookProgress]()
            for row in rows:
                delivered = self._furthest(row, known.get(row.id))
                position = delivered.position
                if row.id not in known or position > known[row.id].position:
                    self.ledger.put(row.id, delivered)
                if row.id in taken or position >= row.delivered_to + NOTE_POSITIONS:
                    progress.append(WebhookProgress(row.id, position))
            if progress:
                note = WebhooksDelivered(progress=progress)
                await asyncio.wrap_future(self._node.writer.submit([note], actor=ACTOR))
        except Exception as fault:
            _log.warning("could not note deliveries in the log, will retry: %s", fault)
            return
        self._unnoted = {name: at for name, at in self._unnoted.items() if at != taken.get(name)}

    def _begin(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self.children[name] = asyncio.create_task(self._keep(work), name=f"to {name}")

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work for ever. After a fault of this node, such as a full disk, it waits: what was
        delivered but not noted comes again."""
        while True:
            try:
                await work()
            except Exception as fault:
                self.failed(fault)
            await asyncio.sleep(RETRY_SECONDS)
            self.error = None

    async def _read(self) -> None:
        """Read the log once for all subscriptions until a fault of this node."""
        node, targets = self._node, self._targets
        while True:
            await self._commits.wait(
                lambda: node.reader.image.position > targets.position, WAIT_SECONDS
            )
            targets.note(*await asyncio.to_thread(touched_after, node, targets.position))

    async def _follow(self, row: SubscriptionRow) -> None:
        """Deliver to one subscriber until a fault of this node."""
        node = self._node
        while True:
            delivered = self.delivered(row)
            pause = (delivered.open_until_us - node.clock.now_us()) / 1e6
            if 0 < pause <= CIRCUIT_SECONDS:  # a longer one is of a clock that was set back since
                await asyncio.sleep(pause)
                continue
            await self._targets.wait(row.id, delivered.position)
            rights = rights_of(node, self._settings, row)
            if rights is None:  # if the key comes back, deliveries resume here
                await asyncio.sleep(LOOK_SECONDS)
                continue
            found, read_to = await asyncio.to_thread(
                notices_after, node, row, rights, delivered.position
            )
            if not await self._deliver(row, rights, found):
                continue
            if read_to > delivered.position:
                now = self.delivered(row)
                self.ledger.put(row.id, replace(now, position=max(read_to, now.position)))

    async def _deliver(
        self,
        row: SubscriptionRow,
        rights: Authorization,
        notices: list[tuple[int, Notice, dict[str, Any]]],
    ) -> bool:
        """Post every notice in order; whether all succeeded."""
        for number, (position, notice, body) in enumerate(notices):
            if not is_still_due(self._node, self._settings, row, rights, notice):
                return False
            status, reason = await self._post(row, notice.id, webhook_body(row, notice, body))
            if status == GONE:
                await self._end(row)
                return False
            if not 200 <= status < 300:
                await self._failed(row, reason or f"answered {status}")
                return False
            last = number + 1 == len(notices) or notices[number + 1][0] != position
            now = self.delivered(row)
            at = position if last else now.position
            self.ledger.put(row.id, Delivered(at, 0, 0, self._node.clock.now_us()))
            self._unnoted[row.id] = position
        return True

    async def _post(self, row: SubscriptionRow, name: str, body: bytes) -> tuple[int, str]:
        """The receiver's status; 0 and a reason if it did not answer."""
        private = self._settings.webhooks_allow_private
        fault = address_fault(row.delivery_address, private=private)
        if fault is not None:
            return 0, fault
        assert self._session is not None
        headers = {
            "Content-Type": "application/json",
            "X-Stigmem-Event-Id": name,
            "X-Engramlog-Signature": signature_of(secret_of(self._node, row.id), body),
        }
        try:
            async with self._session.post(
                row.delivery_address, data=body, headers=headers, allow_redirects=False
            ) as found:
                return found.status, ""
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as fault_met:
            # ValueError: a name that cannot be looked up
            return 0, f"{type(fault_met).__name__}: {fault_met}"

    async def _failed(self, row: SubscriptionRow, reason: str) -> None:
        """Back off after every failure, and pause after many (the circuit opens)."""
        now = self.delivered(row)
        failures = now.failures + 1
        opened = failures >= CIRCUIT_FAILURES
        wait = min(2.0 ** (failures - 1), BACKOFF_SECONDS_MAX)
        seconds = CIRCUIT_SECONDS if opened else wait * (0.5 + random.random() / 2)
        if failures == 1 or opened:
            _log.warning("webhook of subscription %s failed: %s", row.id, reason)
        until = self._node.clock.now_us() + int(seconds * 1e6)
        self.ledger.put(row.id, replace(now, failures=failures, open_until_us=until))

    async def _end(self, row: SubscriptionRow) -> None:
        """The receiver ended the subscription for good."""
        command = Unsubscribe(
            subscription_id=row.id, subscriber=None, reason="receiver answered 410"
        )
        await asyncio.wrap_future(self._node.writer.submit([command], actor=ACTOR))
