"""Every route of the API, collected from the files that serve them.

The router, the permission check, OpenAPI and the docs page use this table. Each row is next to its
handler.
"""

from engramlog.api.http.routing import Route
from engramlog.api.routes.entities import cards, names, neighbors, search
from engramlog.api.routes.facts import (
    attributes,
    batch,
    conflicts,
    content,
    decay,
    erasures,
    fact_list,
    facts,
    intents,
    provenance,
    scopes,
    tombstones,
)
from engramlog.api.routes.federation import (
    comparing,
    declarations,
    peers,
    protocol_facts,
    replication,
    shared_tombstones,
    streams,
)
from engramlog.api.routes.memory import consolidation, deltas, episodes, memories, summaries
from engramlog.api.routes.node import (
    doctor,
    metrics,
    pages,
    protocol_stubs,
    snapshots,
    storage,
    system,
    tasks,
)
from engramlog.api.routes.recall import embeddings, feedback, profiles, recall, receipts
from engramlog.api.routes.rights import (
    agent_keys,
    capabilities,
    gardens,
    keys,
    manifests,
    protocol_capabilities,
    quarantine,
    trust,
)
from engramlog.api.routes.time_travel import audit, export, lives, log, states, subscriptions

_FILES = (
    facts, fact_list, search, batch, attributes, provenance, memories, conflicts, content,
    recall, feedback, receipts, neighbors, cards, profiles, gardens, quarantine, scopes, decay,
    trust, states, lives, log, audit, export, names, intents, episodes, deltas, consolidation,
    keys, agent_keys, capabilities, protocol_capabilities, erasures, tombstones, summaries,
    subscriptions, replication, declarations, peers, streams, comparing, protocol_facts,
    shared_tombstones, manifests, snapshots, system, metrics, tasks, storage, doctor,
    protocol_stubs, embeddings, pages,
)  # fmt: skip
"""In the order of the documentation."""

ROUTES: tuple[Route, ...] = tuple(row for file in _FILES for row in file.routes.rows)
