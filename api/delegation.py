"""The routes that a capability opens: everything they show or change is bounded by scope and
entity, and passes the caller's mask first. All others want a key."""

from __future__ import annotations

DELEGABLE: frozenset[tuple[str, str]] = frozenset(
    {
        ("POST", "/v1/facts"),
        ("PUT", "/v1/facts"),
        ("POST", "/v1/facts/batch"),
        ("POST", "/v1/facts/{fact_id}/retract"),
        ("GET", "/v1/facts"),
        ("GET", "/v1/facts/{fact_id}"),
        ("GET", "/v1/facts/{fact_id}/provenance"),
        ("POST", "/v1/facts/{fact_id}/verify-cid"),
        ("GET", "/v1/conflicts"),
        ("POST", "/v1/recall"),
        ("GET", "/v1/recall"),
        ("GET", "/v1/graph/neighbors"),
        ("GET", "/v1/cards/{entity_uri:.+}"),
        ("GET", "/v1/profiles"),
        ("GET", "/v1/profiles/{name}"),
        ("POST", "/v1/lint"),
        ("GET", "/v1/lint/jobs/{job_id}"),
        ("GET", "/v1/scopes/{scope}/synthesize"),
        ("GET", "/v1/time-travel/state"),
        ("GET", "/v1/time-travel/diff"),
        ("GET", "/v1/time-travel/facts/{fact_id}"),
        ("GET", "/v1/time-travel/entities/{entity_uri:.+}"),
        ("GET", "/v1/me"),
        ("GET", "/.well-known/stigmem"),
        ("GET", "/healthz"),
        ("GET", "/v1/health"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/ui"),
        ("POST", "/v1/capabilities/inspect"),
        ("POST", "/v1/federation/capability-tokens/verify"),
    }
)
"""(method, path) as in the route table."""
