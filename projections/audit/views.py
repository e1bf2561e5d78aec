"""The views of audit SQL. ``docs/audit.md`` describes each."""

EVENT_COLUMNS = (
    "position",
    "make_timestamp(received_at_us) AS received_at",
    "kind",
    "schema_version",
    "actor",
    "fact_ids",
    "entity",
    "relation",
    "value_type",
    "value",
    "source",
    "scope",
    "garden_id",
    "confidence",
    "valid_from",
    "valid_until",
    "CASE WHEN kind IN ('key_issued', 'agent_key_set') THEN NULL ELSE detail END AS detail",
    "event_id",
    "causation_id",
    "origin",
    "stream",
    "stream_seq",
    "make_timestamp(recorded_at_us) AS recorded_at",
    "hlc",
    "peer",
    "hash",
    "erased",
)
"""The columns of each event, in order; the names after AS."""

_EVENTS = "CREATE VIEW events AS SELECT * FROM {events}"
_FACTS = """
CREATE VIEW facts AS
SELECT e.fact_ids[1] AS fact_id, e.entity, e.relation, e.value_type, e.value, e.source, e.scope,
    e.garden_id, e.confidence AS asserted_confidence, s.confidence, e.valid_from, e.valid_until,
    e.position AS from_position, nullif(s.ended, 0) AS to_position, e.received_at, e.recorded_at,
    e.actor, e.origin, e.peer
FROM events e JOIN standing s ON s.position = e.position
WHERE e.kind = 'fact_asserted'
"""
_RETRACTIONS = """
CREATE VIEW retractions AS
SELECT unnest(e.fact_ids) AS fact_id, e.position, e.received_at, e.actor,
    json_extract_string(e.detail, '$.reason') AS reason
FROM events e WHERE e.kind = 'fact_retracted'
"""
_RESOLUTIONS = """
CREATE VIEW resolutions AS
SELECT json_extract_string(e.detail, '$.conflict_id') AS conflict_id,
    json_extract_string(e.detail, '$.winner_id') AS winner_id,
    CAST(json_extract(e.detail, '$.loser_ids') AS VARCHAR[]) AS loser_ids,
    json_extract_string(e.detail, '$.note') AS note, e.position, e.received_at, e.actor
FROM events e WHERE e.kind = 'conflict_resolved'
"""
_SWEEPS = """
CREATE VIEW sweeps AS
SELECT e.position, e.received_at, e.scope, json_extract(e.detail, '$.policies') AS policies
FROM events e WHERE e.kind = 'decay_swept'
"""
_RECALLS = """
CREATE VIEW recalls AS
SELECT unnest(e.fact_ids) AS fact_id, e.position, e.received_at, e.actor,
    json_extract_string(e.detail, '$.receipt_id') AS receipt_id,
    json_extract_string(e.detail, '$.query') AS query,
    CAST(json_extract(e.detail, '$.position') AS BIGINT) AS asked_position, e.detail
FROM events e WHERE e.kind = 'recall_answered'
"""
VIEWS = (_EVENTS, _FACTS, _RETRACTIONS, _RESOLUTIONS, _SWEEPS, _RECALLS)
