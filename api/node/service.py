"""The service of an open node: the state that all requests share."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from engramlog.api.answers.chain_proof import FactChains
from engramlog.api.answers.recall.outcome import RecallOutcome
from engramlog.api.http.auth import Caller
from engramlog.api.http.browser_policy import BrowserPolicy
from engramlog.api.http.metrics import Metrics
from engramlog.api.http.state.commit_watch import CommitWatch
from engramlog.api.http.state.cursors import CursorSealer
from engramlog.api.http.state.quotas import Quotas
from engramlog.api.http.state.sessions import Sessions
from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.long_work import LongWork
from engramlog.api.node.node import Node
from engramlog.api.node.reading_node import ReadingNode
from engramlog.api.node.tasks.consolidation_schedule import ConsolidationScheduler
from engramlog.api.node.tasks.erasure_cleaning import ErasureCleaning
from engramlog.api.node.tasks.jobs import Rebuild, Reindex, RequestJobs, SingleJob
from engramlog.api.node.tasks.peering import PeerReplay
from engramlog.api.node.tasks.protocol_federation import ProtocolFederation
from engramlog.api.node.tasks.recall_tracking import RecallTracker
from engramlog.api.node.tasks.snapshots import SnapshotTaking
from engramlog.api.node.tasks.task import Tasks
from engramlog.api.node.tasks.webhook_delivery import WebhookDelivery
from engramlog.api.schemas.recall import RecallBody, Shape
from engramlog.api.settings import Settings
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.cards.serving import Cards
from engramlog.projections.cards.source import CardSource

STAGE_THREADS = 8


class Recalls(Protocol):
    """Answers recalls: in a worker or, by ``here``, in this process."""

    @property
    def ready(self) -> int: ...
    async def answer(
        self,
        caller: Caller,
        body: RecallBody,
        warnings: list[str],
        *,
        shape: Shape,
        verify: bool,
        here: Callable[[], Awaitable[RecallOutcome]],
    ) -> RecallOutcome: ...


@dataclass(frozen=True)
class ReadingService:
    """The state that reads share; a process that follows a node has only this."""

    node: ReadingNode
    settings: Settings
    cards: CardSource
    chains: FactChains
    stage_pool: ThreadPoolExecutor


@dataclass(frozen=True)
class Service(ReadingService):
    """The state that requests share: the node, its tasks, and the HTTP server's own."""

    node: Node
    cursors: CursorSealer
    sessions: Sessions
    quotas: Quotas
    jobs: RequestJobs
    tracker: RecallTracker
    cards: Cards
    metrics: Metrics
    rebuilds: SingleJob[Rebuild]
    snapshots: SnapshotTaking
    reindexing: SingleJob[Reindex]
    archive: Archive
    cleaning: ErasureCleaning
    desk: AuditDesk
    consolidator: Consolidator
    scheduler: ConsolidationScheduler
    pool: ThreadPoolExecutor
    long: LongWork
    statements: LongWork
    recalls: Recalls
    commits: CommitWatch
    browsers: BrowserPolicy
    deliverer: WebhookDelivery
    peers: PeerReplay
    federation: ProtocolFederation
    tasks: Tasks
    control_token: str | None = None
    forking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One fork runs at a time, because each takes its own memory."""
    naming: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By name of an intent: only one request at a time finds a name free and takes it."""

    def close(self) -> None:
        """Release threads and files; the tasks have stopped."""
        self.desk.stop()
        for each in (self.long, self.statements):
            each.close()
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.desk.close()
        self.stage_pool.shutdown(wait=True, cancel_futures=True)
