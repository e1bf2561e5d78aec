"""Builds the service of an open node, with its tasks in start order."""

from concurrent.futures import ThreadPoolExecutor

from engramlog.api.answers.chain_proof import FactChains
from engramlog.api.http.browser_policy import BrowserPolicy
from engramlog.api.http.metrics import Metrics
from engramlog.api.http.state.commit_watch import CommitWatch
from engramlog.api.http.state.cursors import CursorSealer
from engramlog.api.http.state.quotas import Quotas
from engramlog.api.http.state.sessions import Sessions
from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.long_work import LongWork
from engramlog.api.node.node import Node
from engramlog.api.node.recall_workers.pool import RecallWorkers
from engramlog.api.node.service import STAGE_THREADS, Service
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

READ_THREADS = 4
LONG_THREADS = 2


def create_service(node: Node, settings: Settings, *, control_token: str | None = None) -> Service:
    """The state that requests share. Starts no task yet."""
    archive = Archive(node.directory, node.log)
    desk = AuditDesk(archive)
    commits = CommitWatch()
    consolidator = Consolidator(node)
    cards = Cards(
        node.reader.rows,
        node.reader.pin,
        node.clock.now_us,
        node.reader.slot_of,
        max_age_s=settings.card_max_age_s,
        queue_max=settings.card_queue_max,
        vectors=lambda: None if node.embeddings is None else node.embeddings.cards,
    )
    tracker = RecallTracker(node.writer, settings.recall_track_interval_s)
    jobs = RequestJobs()
    rebuilds = SingleJob("rebuild", Rebuild, node.clock.now_us)
    reindexing = SingleJob("reindex", Reindex, node.clock.now_us)
    recalls = RecallWorkers(node, settings, settings.recall_workers)
    cleaning = cleaning_of(node, archive, desk, tracker.flush, recalls.restart)
    snapshots = SnapshotTaking(node, settings.snapshots_every_events, settings.snapshots_keep)
    peers = PeerReplay(node, settings)
    federation = ProtocolFederation(node, settings, peers)
    deliverer = WebhookDelivery(node, settings, commits)
    scheduler = ConsolidationScheduler(node, consolidator, enabled=settings.consolidation_enabled)
    # Tasks stop in the opposite order: first those that write by themselves, last those that others
    # need.
    tasks = Tasks(
        CardRefreshing(cards, node.reader),
        tracker,
        reindexing,
        Embedding(node),
        rebuilds,
        jobs,
        recalls,
        ArchiveSealing(archive),
        cleaning,
        snapshots,
        ImageWriting(node),
        peers,
        federation,
        TombstonePuller(node, settings, federation.shared_scopes),
        deliverer,
        scheduler,
        SummaryFolder(node, settings),
    )
    return Service(
        node=node,
        settings=settings,
        cursors=CursorSealer(node.cursor_key, settings.cursor_ttl_s * 1_000_000),
        sessions=Sessions(),
        jobs=jobs,
        quotas=Quotas(settings.quota_reads_per_hour, settings.quota_writes_per_hour),
        cards=cards,
        tracker=tracker,
        cleaning=cleaning,
        metrics=Metrics(),
        rebuilds=rebuilds,
        snapshots=snapshots,
        reindexing=reindexing,
        chains=FactChains(),
        archive=archive,
        desk=desk,
        consolidator=consolidator,
        scheduler=scheduler,
        pool=ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read"),
        long=LongWork("long", LONG_THREADS),
        statements=LongWork("sql", 1),
        stage_pool=ThreadPoolExecutor(STAGE_THREADS, thread_name_prefix="stage"),
        recalls=recalls,
        control_token=control_token,
        commits=commits,
        browsers=BrowserPolicy.of(settings),
        deliverer=deliverer,
        federation=federation,
        peers=peers,
        tasks=tasks,
    )
