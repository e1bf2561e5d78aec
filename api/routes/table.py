"""Every route of the API, collected from the files that serve them.

The router, the permission check, OpenAPI and the docs page use this table. Each row is next to its
handler.
"""

from engramlog.api.http.routing import Route, Routes
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

_COLLECTED: tuple[Routes, ...] = (
    facts.routes,
    fact_list.routes,
    search.routes,
    batch.routes,
    attributes.routes,
    provenance.routes,
    memories.routes,
    conflicts.routes,
    content.routes,
    recall.routes,
    feedback.routes,
    receipts.routes,
    neighbors.routes,
    cards.routes,
    profiles.routes,
    gardens.routes,
    quarantine.routes,
    scopes.routes,
    decay.routes,
    trust.routes,
    states.routes,
    lives.routes,
    log.routes,
    audit.routes,
    export.routes,
    names.routes,
    intents.routes,
    episodes.routes,
    deltas.routes,
    consolidation.routes,
    keys.routes,
    agent_keys.routes,
    capabilities.routes,
    protocol_capabilities.routes,
    erasures.routes,
    tombstones.routes,
    summaries.routes,
    subscriptions.routes,
    replication.routes,
    declarations.routes,
    peers.routes,
    streams.routes,
    comparing.routes,
    protocol_facts.routes,
    shared_tombstones.routes,
    manifests.routes,
    snapshots.routes,
    system.routes,
    metrics.routes,
    tasks.routes,
    storage.routes,
    doctor.routes,
    protocol_stubs.routes,
    embeddings.routes,
    pages.routes,
)
"""In the order of the documentation."""

ROUTES: tuple[Route, ...] = tuple(row for routes in _COLLECTED for row in routes.rows)
