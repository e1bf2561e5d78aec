"""Every route of the API, collected from the files that serve them.

The router, the permission check, OpenAPI and the docs page use this table. Each row is next to its
handler.
"""

from importlib import import_module

from engramlog.api.http.routing import Route

FILES = (
    "facts.facts", "facts.fact_list", "entities.search", "facts.batch",
    "facts.provenance", "memory.memories", "facts.conflicts", "facts.content", "recall.recall",
    "recall.feedback", "recall.receipts", "entities.neighbors", "entities.cards", "recall.profiles",
    "rights.gardens", "rights.quarantine", "facts.scopes", "facts.decay", "rights.trust",
    "time_travel.states", "time_travel.lives", "time_travel.log", "time_travel.audit",
    "time_travel.export", "entities.names", "facts.intents", "memory.episodes", "memory.deltas",
    "memory.consolidation", "rights.keys", "rights.capabilities",
    "rights.protocol_capabilities", "facts.erasures", "memory.summaries",
    "time_travel.subscriptions", "federation.replication", "federation.declarations",
    "federation.peers", "federation.streams", "federation.protocol_facts",
    "rights.manifests", "node.snapshots", "node.system",
    "node.metrics", "node.storage", "node.doctor", "node.protocol_stubs",
    "recall.embeddings", "node.pages",
)  # fmt: skip
"""Below ``engramlog.api.routes``, in the order of the documentation."""

ROUTES: tuple[Route, ...] = tuple(
    row for file in FILES for row in import_module(f"engramlog.api.routes.{file}").routes.rows
)
