"""The node's counters and gauges, for Prometheus.

Anyone may read them. So no label names a principal, a peer or an entity, and no number reveals
restricted data beyond what positions and requests show.
"""

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import process_time

from aiohttp import web

from engramlog.api.http.call import Call
from engramlog.api.http.metrics import Sample
from engramlog.api.http.routing import Routes
from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.api.node.tasks.webhook_delivery import CIRCUIT_FAILURES
from engramlog.api.release import release
from engramlog.api.routes.recall.embeddings import status_of
from engramlog.eventlog.errors import StorageError
from engramlog.projections.tables.declared.subscriptions import count_subscriptions
from engramlog.projections.tables.peers.peers import load_peer_streams
from engramlog.projections.tables.peers.refused_events import count_refused
from engramlog.projections.tables.peers.remote_retractions import waiting_ends
from engramlog.projections.tables.store import unknown_events

routes = Routes("node")


@routes.add("GET /metrics", permission="none", answers={200: None}, delegable=True)
async def metrics(call: Call) -> web.Response:
    """Counters, gauges and histograms as Prometheus text."""
    text = call.service.metrics.render(_samples(call))
    return web.Response(text=text, content_type="text/plain", charset="utf-8")


def _samples(call: Call) -> Iterator[Sample]:
    yield from _node(call)
    yield from _tasks(call)
    yield from _writer(call)
    yield from _recall(call)
    yield from _embedding(call)
    yield from _replica(call)
    yield from _shared_log(call.node)
    for of_tables in (_webhooks, _federation, _protocol):
        with suppress(StorageError):  # a full disk must not end all monitoring
            yield from of_tables(call)
    yield from process_samples()


def _node(call: Call) -> Iterator[Sample]:
    status = status_of_node(call.node)
    head = call.node.log.head().position
    yield Sample("engramlog_log_position", "Last position of the log.", head)
    yield Sample("engramlog_ready", "1 while the node is ready.", status["degraded"] is None)
    for projector, mark in status["projections"].items():
        labels = f'{{projection="{projector}"}}'
        yield Sample("engramlog_projection_lag", "Positions behind the log.", mark["lag"], labels)


def _tasks(call: Call) -> Iterator[Sample]:
    for task in call.service.tasks.statuses():
        labels = f'{{task="{task.name}"}}'
        failing = task.state == "failing"
        yield Sample("engramlog_task_failing", "1 if its last attempt failed.", failing, labels)


def _writer(call: Call) -> Iterator[Sample]:
    writer = call.node.writer
    yield Sample("engramlog_writer_waiting", "Commands that wait for the writer.", writer.waiting)
    yield Sample("engramlog_writer_groups_total", "Groups committed.", writer.groups)
    yield Sample("engramlog_writer_commands_total", "Commands committed.", writer.submissions)
    yield Sample(
        "engramlog_writer_group_size",
        "Commands a group, on average since start.",
        writer.submissions / writer.groups if writer.groups else 0.0,
    )


def _recall(call: Call) -> Iterator[Sample]:
    service = call.service
    queue = service.cards.queue
    yield Sample(
        "engramlog_recall_workers_ready",
        "Processes that answer recalls, apart from this one.",
        service.recalls.ready,
    )
    yield Sample(
        "engramlog_recall_uses_waiting",
        "Facts whose recall counts are not in the log yet.",
        service.tracker.pending,
    )
    yield Sample(
        "engramlog_recall_receipts_waiting",
        "Receipts of recalls that are not in the log yet.",
        service.tracker.waiting,
    )
    yield Sample("engramlog_cards_waiting", "Memory cards that wait for writing.", queue.waiting)
    yield Sample(
        "engramlog_cards_refused_total",
        "Memory cards not queued because the queue was full.",
        queue.refused,
    )
    yield Sample(
        "engramlog_card_vectors_waiting",
        "Memory cards that wait for embedding.",
        service.cards.embedding.waiting,
    )
    yield Sample("engramlog_cards_kept", "Memory cards kept in memory.", len(service.cards.cache))


def _embedding(call: Call) -> Iterator[Sample]:
    status = status_of(call)
    for name, meaning, field in (
        ("engramlog_embedding_lag", "Positions by which embedding is behind the log.", "lag"),
        ("engramlog_embedding_waiting", "Facts that are to get a vector.", "waiting"),
    ):
        yield Sample(name, meaning, getattr(status, field))


def _webhooks(call: Call) -> Iterator[Sample]:
    head = call.node.reader.image.position
    yield Sample(
        "engramlog_webhooks_behind",
        "Subscriptions with webhook deliveries outstanding.",
        sum(each.position < head for each in call.service.deliverer.progress()),
    )


def _federation(call: Call) -> Iterator[Sample]:
    reader = call.node.reader
    for name, meaning, value in (
        (
            "engramlog_peers_active",
            "Approved peers.",
            sum(row.active for row in call.service.peers.rows().values()),
        ),
        (
            "engramlog_peer_streams_held",
            "Streams of peers that wait for an operator's release.",
            sum(each.held for each in reader.ask(load_peer_streams)),
        ),
        (
            "engramlog_foreign_claims_waiting",
            "Facts here that other nodes ended, without effect here.",
            sum(sum(each.values()) for each in reader.ask(waiting_ends).values()),
        ),
        (
            "engramlog_unknown_events",
            "Events of kinds or versions that only later releases know.",
            sum(count for _, _, count in reader.ask(unknown_events)),
        ),
        (
            "engramlog_refused_events",
            "Events of peers whose content breaks a rule.",
            reader.ask(count_refused),
        ),
    ):
        yield Sample(name, meaning, value)


def _replica(call: Call) -> Iterator[Sample]:
    """How well a replica follows its primary; no samples on other nodes."""
    replica = status_of_node(call.node).get("replica")
    if replica is None:
        return
    for name, meaning, field in (
        ("engramlog_replica_connected", "1 while the replica's primary answers.", "connected"),
        ("engramlog_replica_lag", "Positions by which it is behind its primary.", "lag"),
        (
            "engramlog_replica_behind_s",
            "Seconds since it held all its primary had; -1 for never.",
            "behind_s",
        ),
    ):
        yield Sample(name, meaning, _known(replica.get(field)))
    copied = _known(replica.get("events"))
    yield Sample("engramlog_replica_events_total", "Events copied.", copied)


def _known(value: float | None) -> float:
    return -1.0 if value is None else float(value)


def _shared_log(node: Node) -> Iterator[Sample]:
    """The state of a log in PostgreSQL; no samples for one in the data directory."""
    if node.shared is None:
        return
    figures = node.shared.figures
    for name, meaning, value in (
        ("engramlog_log_locks_total", "Requests for the log's lock.", figures.locks),
        ("engramlog_log_lock_seconds_total", "Seconds until it was had.", figures.lock_seconds),
        ("engramlog_log_commits_total", "Commits to the log.", figures.commits),
        ("engramlog_log_commit_seconds_total", "Seconds until confirmed.", figures.commit_seconds),
    ):
        yield Sample(name, meaning, value)
    yield Sample("engramlog_log_leads", "1 on the node that leads.", node.shared.leads)
    lag = _known(figures.standby_lag_bytes)
    yield Sample("engramlog_log_standby_lag_bytes", "Lag of the quickest standby.", lag)


def _protocol(call: Call) -> Iterator[Sample]:
    """Further metrics that the protocol's dashboards read; ``Metrics`` counts the requests."""
    service, reader = call.service, call.node.reader
    for dimension, count in service.quotas.refused.items():
        labels = f'{{tenant="default",dimension="fact_{dimension}"}}'
        name = "stigmem_quota_breach_total"
        yield Sample(name, "Requests refused by a quota.", count, labels)
    shut = sum(each.failures >= CIRCUIT_FAILURES for each in service.deliverer.progress())
    yield Sample(
        "stigmem_subscription_connections_active",
        "Subscriptions whose receiver has not failed time and again.",
        reader.ask(count_subscriptions) - shut,
        '{tenant="default"}',
    )
    levels = [state.level_at_us for state in service.peers.states.values()]
    if levels:
        now_us = call.node.clock.now_us()
        known = [max(0, now_us - at_us) / 1e6 for at_us in levels if at_us is not None]
        yield Sample(
            "stigmem_replication_lag_seconds",
            "Seconds since the peer that is furthest behind was level; -1 for never.",
            max(known) if len(known) == len(levels) else -1.0,
        )


_PROC = Path("/proc/self")


def process_samples() -> Iterator[Sample]:
    """CPU; and if ``/proc`` has them, memory, files and the start."""
    yield Sample(
        "engramlog_build_info",
        "1; the release and its Python.",
        1,
        f'{{version="{release()}",python="{platform.python_version()}"}}',
    )
    yield Sample("process_cpu_seconds_total", "CPU time used.", process_time())
    with suppress(OSError):
        pages = (_PROC / "statm").read_text().split()
        size, resident = (int(each) * resource.getpagesize() for each in pages[:2])
        yield Sample("process_virtual_memory_bytes", "Virtual memory.", size)
        yield Sample("process_resident_memory_bytes", "Resident memory.", resident)
        yield Sample("process_open_fds", "Open files.", len(os.listdir(_PROC / "fd")))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield Sample("process_max_fds", "Files that may be open.", limit)
        yield Sample("process_start_time_seconds", "Start, since 1970.", _started())


@cache
def _started() -> float:
    """When the process started, in seconds since 1970. Raises OSError."""
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime")
    )
    after_name = (_PROC / "stat").read_text().rpartition(")")[2].split()
    return boot + int(after_name[19]) / os.sysconf("SC_CLK_TCK")
