"""The service of an open node: the state that all requests share, and its tasks in start order."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Protocol
from weakref import WeakValueDictionary

from engramlog.api.answers.chain_proof import FactChains
from engramlog.api.http.browser_policy import BrowserPolicy
from engramlog.api.http.callers import Callers
from engramlog.api.http.metrics import Metrics
from engramlog.api.http.state.commit_watch import CommitWatch
from engramlog.api.http.state.cursors import CursorSealer
from engramlog.api.http.state.open_streams import OpenStreams
from engramlog.api.http.state.quotas import Quotas
from engramlog.api.http.state.sessions import Sessions
from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.fair_threads import FairThreads
from engramlog.api.node.node import Node
from engramlog.api.node.reading_node import ReadingNode
from engramlog.api.node.recall_workers.pool import RecallWorkers
from engramlog.api.node.refusing_threads import RefusingThreads
from engramlog.api.node.tasks.consolidation_schedule import ConsolidationScheduler
from engramlog.api.node.tasks.erasure_cleaning import cleaning_of
from engramlog.api.node.tasks.jobs import Rebuild, Reindex, RequestJobs, SingleJob
from engramlog.api.node.tasks.peering import PeerReplay
from engramlog.api.node.tasks.protocol_federation import ProtocolFederation
from engramlog.api.node.tasks.recall_tracking import RecallTracker
from engramlog.api.node.tasks.snapshots import SnapshotTaking
from engramlog.api.node.tasks.summary_folder import SummaryFolder
from engramlog.api.node.tasks.task import Tasks
from engramlog.api.node.tasks.tombstone_sharing import TombstonePuller
from engramlog.api.node.tasks.upkeep import ArchiveSealing, CardRefreshing, Embedding, ImageWriting
from engramlog.api.node.tasks.webhook_delivery import WebhookDelivery
from engramlog.api.settings import Settings
from engramlog.projections.archive.archive import Archive
from engramlog.projections.audit.desk import AuditDesk
from engramlog.projections.cards.serving import Cards
from engramlog.projections.cards.source import CardSource

READ_THREADS = 4
LONG_THREADS = 2
STAGE_THREADS = 8


class ReadingService(Protocol):
    """The state that reads share; a process that follows a node has only this."""

    @property
    def node(self) -> ReadingNode: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def cards(self) -> CardSource: ...
    @property
    def chains(self) -> FactChains: ...
    @property
    def stage_pool(self) -> ThreadPoolExecutor: ...


class Service:
    """The node, its tasks, and the HTTP server's own state. Starts no task yet.

    Attributes:
        document: the API as OpenAPI in JSON, made on first use, because few processes need it.
        forking: one fork runs at a time, because each takes its own memory.
        naming: by name of an intent: only one request at a time finds a name free and takes it.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        document: Callable[[], bytes],
        *,
        control_token: str | None = None,
    ) -> None:
        self.node = node
        self.settings = settings
        self.document = document
        required = settings.auth_required
        self.callers = Callers(node, keys_required=required, control_token=control_token)
        self.cursors = CursorSealer(node.cursor_key, settings.cursor_ttl_s * 1_000_000)
        self.sessions = Sessions()
        self.streams = OpenStreams()
        self.quotas = Quotas(settings.quota_reads_per_hour, settings.quota_writes_per_hour)
        self.metrics = Metrics()
        self.chains = FactChains()
        self.browsers = BrowserPolicy.of(settings)
        self.commits = CommitWatch()
        self.forking = asyncio.Lock()
        self.naming = WeakValueDictionary[str, asyncio.Lock]()
        self.reads = FairThreads("read", READ_THREADS, READ_THREADS - 1)
        self.stage_pool = RefusingThreads(STAGE_THREADS, thread_name_prefix="stage")
        self.long = FairThreads("long", LONG_THREADS)
        self.statements = FairThreads("sql", 1)
        self.archive = Archive(node.directory, node.log)
        self.desk = AuditDesk(self.archive)
        self.consolidator = Consolidator(node)
        self.cards = Cards(
            node.reader.rows,
            node.reader.pin,
            node.clock.now_us,
            node.reader.slot_of,
            max_age_s=settings.card_max_age_s,
            queue_max=settings.card_queue_max,
            vectors=lambda: None if node.embeddings is None else node.embeddings.cards,
        )
        self.tasks = self._made_tasks()

    def _made_tasks(self) -> Tasks:
        node, settings = self.node, self.settings
        self.tracker = RecallTracker(node.writer, settings.recall_track_interval_s)
        self.reindexing = SingleJob("reindex", Reindex, node.clock.now_us)
        self.rebuilds = SingleJob("rebuild", Rebuild, node.clock.now_us)
        self.jobs = RequestJobs()
        self.recalls = RecallWorkers(node, settings, settings.recall_workers)
        self.cleaning = cleaning_of(
            node, self.archive, self.desk, self.tracker.flush, self.recalls.restart
        )
        self.snapshots = SnapshotTaking(
            node, settings.snapshots_every_events, settings.snapshots_keep
        )
        self.peers = PeerReplay(node, settings)
        self.federation = ProtocolFederation(node, settings, self.peers)
        self.deliverer = WebhookDelivery(node, settings, self.commits)
        self.scheduler = ConsolidationScheduler(
            node, self.consolidator, enabled=settings.consolidation_enabled
        )
        # Tasks stop in the opposite order: first those that write by themselves, last those that
        # others need.
        return Tasks(
            CardRefreshing(self.cards, node.reader),
            self.tracker,
            self.reindexing,
            Embedding(node),
            self.rebuilds,
            self.jobs,
            self.recalls,
            ArchiveSealing(self.archive),
            self.cleaning,
            self.snapshots,
            ImageWriting(node),
            self.peers,
            self.federation,
            TombstonePuller(node, settings, self.federation.shared_scopes),
            self.deliverer,
            self.scheduler,
            SummaryFolder(node, settings),
        )

    def over(self, node: Node, settings: Settings) -> "Service":
        """The same state over another node, such as a fork of this one."""
        other = copy(self)
        other.node, other.settings = node, settings
        return other

    def close(self) -> None:
        """Release threads and files; the tasks have stopped."""
        self.desk.stop()
        for each in (self.long, self.statements, self.reads):
            each.close()
        self.desk.close()
        self.stage_pool.shutdown(wait=True, cancel_futures=True)
