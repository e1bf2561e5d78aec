"""All statements that read or write the events of a log."""

_STORED = """
SELECT e.position, e.received_at, e.received_hlc, e.peer, e.header, e.hash, p.salt, p.payload
"""
READ_ALL = (
    _STORED
    + """FROM engramlog.events e
LEFT JOIN engramlog.payloads p ON p.position = e.position AND p.position > %(after)s
WHERE e.position > %(after)s ORDER BY e.position LIMIT %(limit)s"""
)
"""The bound is on both sides, here and below: otherwise a merge join begins each page at the log's
first payload."""
READ_KNOWN = (
    _STORED
    + """FROM engramlog.events e
LEFT JOIN engramlog.payloads p ON p.position = e.position AND p.position > %(after)s
  AND (e.kind = ANY (%(kinds)s) OR e.stream_no NOT IN (
    SELECT stream_no FROM engramlog.streams WHERE stream LIKE ANY (%(others)s)))
WHERE e.position > %(after)s ORDER BY e.position LIMIT %(limit)s"""
)
"""Without payloads of streams that are not held, except some kinds."""
READ_STREAMS = (
    _STORED
    + """FROM (
  SELECT found.* FROM engramlog.streams s CROSS JOIN LATERAL (
    SELECT * FROM engramlog.events WHERE stream_no = s.stream_no AND position > %(after)s
    ORDER BY position LIMIT %(limit)s) found
  WHERE s.stream = ANY (%(streams)s) ORDER BY found.position LIMIT %(limit)s) e
LEFT JOIN engramlog.payloads p ON p.position = e.position AND p.position > %(after)s
ORDER BY e.position"""
)
READ_STREAM_SEQ = (
    _STORED
    + """FROM engramlog.events e LEFT JOIN engramlog.payloads p USING (position)
WHERE e.stream_no = (SELECT stream_no FROM engramlog.streams WHERE stream = %s)
  AND e.stream_seq > %s ORDER BY e.stream_seq LIMIT %s"""
)
FITTING = """
SELECT count(*) FROM (
  SELECT sum(octet_length(e.header) + coalesce(octet_length(p.payload), 0))
    OVER (ORDER BY e.position) AS size
  FROM engramlog.events e
    LEFT JOIN engramlog.payloads p ON p.position = e.position AND p.position > %(after)s
  WHERE e.position > %(after)s AND (%(streams)s::text[] IS NULL OR e.stream_no IN (
    SELECT stream_no FROM engramlog.streams WHERE stream = ANY (%(streams)s)))
  ORDER BY e.position LIMIT %(limit)s) sizes
WHERE size <= %(bytes_max)s"""
"""How many events after a position, of all streams or some, fit into a number of bytes."""
FITTING_OF_STREAM = """
SELECT count(*) FROM (
  SELECT sum(octet_length(e.header) + coalesce(octet_length(p.payload), 0))
    OVER (ORDER BY e.stream_seq) AS size
  FROM engramlog.events e LEFT JOIN engramlog.payloads p USING (position)
  WHERE e.stream_no = (SELECT stream_no FROM engramlog.streams WHERE stream = %s)
    AND e.stream_seq > %s ORDER BY e.stream_seq LIMIT %s) sizes
WHERE size <= %s"""
"""How many events of a stream after a sequence fit into a number of bytes."""
READ_ROWS = """
SELECT e.position, e.received_at, e.received_hlc, e.peer, e.header, e.hash, p.salt, p.payload,
  s.stream, e.stream_seq, e.event_id, e.kind
FROM engramlog.events e
  LEFT JOIN engramlog.payloads p ON p.position = e.position AND p.position > %(after)s
  LEFT JOIN engramlog.streams s USING (stream_no)
WHERE e.position > %(after)s ORDER BY e.position LIMIT %(limit)s"""
"""With the columns that repeat the header, for ``verify``."""

STREAMS = "SELECT stream, stream_no FROM engramlog.streams"
STREAM_HEADS = """
SELECT s.stream, e.stream_seq, e.hash FROM engramlog.streams s CROSS JOIN LATERAL (
  SELECT stream_seq, hash FROM engramlog.events WHERE stream_no = s.stream_no
  ORDER BY stream_seq DESC LIMIT 1) e"""
STREAM_HEADS_AFTER = """
SELECT DISTINCT ON (s.stream_no) s.stream, e.stream_seq, e.hash
FROM engramlog.events e JOIN engramlog.streams s USING (stream_no)
WHERE e.position > %s ORDER BY s.stream_no, e.stream_seq DESC"""
LAST_EVENT_ID = "SELECT event_id FROM engramlog.events ORDER BY event_id DESC LIMIT 1"
EVENT_HELD = "SELECT 1 FROM engramlog.events WHERE event_id = %s"
HASH_AT = "SELECT hash FROM engramlog.events WHERE position = %s"
KEY_USE = """
SELECT digest, first_position, last_position FROM engramlog.idempotency
WHERE actor = %s AND key = %s"""
POSITION_AT = "SELECT engramlog.position_at(%s)"
RECEIVED_AT = "SELECT received_at FROM engramlog.events WHERE position = %s"
POSITIONS_OF = "SELECT event_id, position FROM engramlog.events WHERE event_id = ANY (%s)"
HEADERS_OF = "SELECT header FROM engramlog.events WHERE event_id = ANY (%s)"
USED_KEYS = """
SELECT count(*) FROM engramlog.idempotency WHERE first_position <= last_position
AND (first_position <= %s
  OR first_position > (SELECT coalesce(max(position), 0) FROM engramlog.events))"""
KEYS_NAMED = "SELECT actor, key FROM engramlog.idempotency WHERE key = ANY (%s) AND digest <> ''"
IS_NAMED = """
SELECT 1 FROM engramlog.events JOIN engramlog.erased USING (event_id)
WHERE events.position = %s AND kind <> 'fact_erased'"""
STRAY = """
SELECT min(position) FROM engramlog.events
WHERE position > (SELECT position FROM engramlog.head)"""
ORPHAN = """
SELECT min(p.position) FROM engramlog.payloads p LEFT JOIN engramlog.events e USING (position)
WHERE e.position IS NULL"""

INSERT_STREAM = "INSERT INTO engramlog.streams (stream_no, stream) VALUES (%s, %s)"
_EVENT_COLUMNS = (
    "position, stream_no, stream_seq, event_id, kind, received_at, received_hlc, peer, header, hash"
)
INSERT_EVENTS = f"""
INSERT INTO engramlog.events ({_EVENT_COLUMNS})
SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::bigint[], %b::bytea[], %b::text[],
  %b::bigint[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[])"""
INSERT_PAYLOADS = """
INSERT INTO engramlog.payloads (position, salt, payload)
SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[])"""
INSERT_KEYS = """
INSERT INTO engramlog.idempotency (actor, key, digest, first_position, last_position)
SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[])"""
COPY_EVENTS = f"COPY engramlog.events ({_EVENT_COLUMNS}) FROM STDIN (FORMAT BINARY)"
COPY_PAYLOADS = "COPY engramlog.payloads (position, salt, payload) FROM STDIN (FORMAT BINARY)"
EVENT_TYPES = (
    "int8", "int4", "int8", "bytea", "text", "int8", "int8", "text", "bytea", "bytea",
)  # fmt: skip
PAYLOAD_TYPES = ("int8", "bytea", "bytea")
NAME_ERASED = """
INSERT INTO engramlog.erased (event_id, position)
SELECT * FROM unnest(%b::bytea[], %b::bigint[]) ON CONFLICT DO NOTHING"""
ERASE = "SELECT engramlog.erase(%b::bytea[], %b::bytea[], %b::bytea[])"
MAKE_ROOM = "SELECT engramlog.make_room(%s)"
SCRUB = "SELECT engramlog.scrub()"

CLAIM = "UPDATE engramlog.head SET origin = %s, epoch = %s"
MOVE_HEAD = "SELECT engramlog.move_head(%b, %b, %b, %b, %b, %b, %b)"
PROVE = "UPDATE engramlog.head SET proofs = proofs + 1"
END_STUCK = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
WHERE l.relation = 'engramlog.head'::regclass AND l.mode = 'RowShareLock' AND l.granted
  AND a.datname = current_database() AND a.usename = current_user
  AND a.wait_event = 'ClientRead' AND a.state_change < now() - make_interval(secs => %s)"""
"""The server's own limit does not count while it waits within a pipeline."""
LISTEN = "LISTEN engramlog"
LEAD = "SELECT pg_try_advisory_lock(1701734765)"
"""``engm`` in ASCII; held until the connection closes."""
STANDBY_LAG = """
SELECT min(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)) FROM pg_stat_replication"""
