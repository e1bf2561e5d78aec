"""The database of a log: tables, guards, and permissions.

The triggers and grants are part of the format. Nothing in the log is updated or deleted, except
payloads that a ``fact_erased`` event in it names; the application's role can delete those only
through ``engramlog.erase``. The row of ``head`` is the log's lock: a transaction takes it before it
decides, and moves it with its events. So positions follow the order of commits and no reader sees a
gap.
"""

from contextlib import suppress

import psycopg
from psycopg import sql

from engramlog.eventlog.engines.postgres.connecting import connect, failures
from engramlog.eventlog.errors import DataDirectoryError

SCHEMA_VERSION = 1
PART_POSITIONS = 10_000_000

TABLES = """
CREATE SCHEMA engramlog;
CREATE TABLE engramlog.head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  schema_version integer NOT NULL,
  origin text,
  epoch bigint NOT NULL DEFAULT 0,
  position bigint NOT NULL DEFAULT 0,
  received_at bigint NOT NULL DEFAULT 0,
  received_hlc bigint NOT NULL DEFAULT 0,
  hash bytea NOT NULL DEFAULT '',
  proofs bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
CREATE TABLE engramlog.streams (
  stream_no integer PRIMARY KEY,
  stream text NOT NULL UNIQUE
);
CREATE TABLE engramlog.events (
  position bigint PRIMARY KEY CHECK (position > 0),
  stream_no integer NOT NULL,
  stream_seq bigint NOT NULL,
  event_id bytea NOT NULL UNIQUE CHECK (length(event_id) = 16),
  kind text NOT NULL,
  received_at bigint NOT NULL,
  received_hlc bigint NOT NULL,
  peer text,
  header bytea NOT NULL,
  hash bytea NOT NULL,
  UNIQUE (stream_no, stream_seq)
);
CREATE INDEX events_stream ON engramlog.events (stream_no, position);
CREATE TABLE engramlog.payloads (
  position bigint PRIMARY KEY,
  salt bytea NOT NULL,
  payload bytea NOT NULL
) PARTITION BY RANGE (position);
CREATE TABLE engramlog.unscrubbed (part text PRIMARY KEY);
CREATE TABLE engramlog.idempotency (
  actor bytea NOT NULL,
  key bytea NOT NULL,
  digest bytea NOT NULL,
  first_position bigint NOT NULL,
  last_position bigint NOT NULL,
  PRIMARY KEY (actor, key)
);
CREATE TABLE engramlog.erased (
  event_id bytea PRIMARY KEY,
  position bigint NOT NULL
);
"""
"""``head.proofs`` is incremented to wait for a commit without writes. Actors and keys are bytes: a
caller's text may hold U+0000, which ``text`` cannot. Payloads lie in parts of ``PART_POSITIONS``,
so that scrubbing rewrites only the parts that lost some, listed in ``unscrubbed``. Headers have no
parts, since their ids are unique over the whole log."""

GUARDS = """
CREATE FUNCTION engramlog.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is append-only: no % on %', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'EGA01';
END $$;

CREATE FUNCTION engramlog.check_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.position < OLD.position OR NEW.epoch < OLD.epoch
    OR OLD.origin IS NOT NULL AND NEW.origin IS DISTINCT FROM OLD.origin
    OR OLD.position > 0 AND (NEW.received_at < OLD.received_at
      OR NEW.received_hlc < OLD.received_hlc)
    OR NEW.position = OLD.position AND NEW.hash <> OLD.hash
    OR NEW.position > OLD.position AND (
      (SELECT count(*) FROM engramlog.events
        WHERE position > OLD.position AND position <= NEW.position)
        <> NEW.position - OLD.position
      OR NOT EXISTS (SELECT FROM engramlog.events
        WHERE position = NEW.position AND hash = NEW.hash))
    OR EXISTS (SELECT FROM engramlog.events WHERE position > NEW.position)
  THEN
    RAISE EXCEPTION 'the head may only follow the events: % to %', OLD.position, NEW.position
      USING ERRCODE = 'EGA01';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION engramlog.move_head(before bigint, before_hash bytea, in_epoch bigint,
  to_position bigint, to_received_at bigint, to_received_hlc bigint, to_hash bytea)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE engramlog.head SET position = to_position, received_at = to_received_at,
      received_hlc = to_received_hlc, hash = to_hash
    WHERE position = before AND hash = before_hash AND epoch = in_epoch;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the head is not at % any more', before USING ERRCODE = 'EGH01';
  END IF;
  PERFORM pg_notify('engramlog', to_position::text);
END $$;

CREATE FUNCTION engramlog.check_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM engramlog.events e JOIN engramlog.payloads p USING (position),
      json_array_elements_text(convert_from(p.payload, 'UTF8')::json -> 'events') named
    WHERE e.position = NEW.position AND e.kind = 'fact_erased'
      AND replace(named, '-', '') = encode(NEW.event_id, 'hex'))
  THEN
    RAISE EXCEPTION 'the fact_erased event does not name this event' USING ERRCODE = 'EGE01';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION engramlog.check_payload_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM engramlog.events JOIN engramlog.erased USING (event_id)
    WHERE events.position = OLD.position AND kind <> 'fact_erased')
  THEN
    RAISE EXCEPTION 'the log is append-only: no DELETE on payloads but erased ones'
      USING ERRCODE = 'EGE01';
  END IF;
  RETURN OLD;
END $$;

CREATE FUNCTION engramlog.check_key_blanked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (NEW.actor = OLD.actor AND NEW.key = OLD.key AND NEW.digest = ''
    AND NEW.first_position = OLD.first_position AND NEW.last_position = OLD.last_position
    AND EXISTS (SELECT FROM engramlog.events e LEFT JOIN engramlog.payloads p USING (position)
      WHERE e.position BETWEEN OLD.first_position AND OLD.last_position AND p.position IS NULL))
  THEN
    RAISE EXCEPTION 'the log is append-only: no UPDATE on idempotency' USING ERRCODE = 'EGA01';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION engramlog.make_room(until bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  size CONSTANT bigint := $PART;
  part bigint;
  made bigint := (SELECT count(*) FROM pg_inherits
    WHERE inhparent = 'engramlog.payloads'::regclass);
BEGIN
  IF until > (SELECT position FROM engramlog.head) + size THEN
    RAISE EXCEPTION 'no room is made so far ahead: %', until USING ERRCODE = 'EGA01';
  END IF;
  FOR part IN made .. until / size LOOP
    EXECUTE format('CREATE TABLE engramlog.payloads_%s PARTITION OF engramlog.payloads'
      ' FOR VALUES FROM (%s) TO (%s)', part, part * size, (part + 1) * size);
    EXECUTE format('CREATE TRIGGER payloads_not_emptied BEFORE TRUNCATE ON engramlog.payloads_%s'
      ' FOR EACH STATEMENT EXECUTE FUNCTION engramlog.refuse()', part);
  END LOOP;
  RETURN greatest(made, until / size + 1) * size - 1;
END $$;

CREATE FUNCTION engramlog.erase(event_ids bytea[], actors bytea[], keys bytea[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO engramlog.unscrubbed
    SELECT DISTINCT p.tableoid::regclass::text FROM engramlog.events e
      JOIN engramlog.payloads p USING (position) WHERE e.event_id = ANY (event_ids)
    ON CONFLICT DO NOTHING;
  DELETE FROM engramlog.payloads USING engramlog.events e
    WHERE payloads.position = e.position AND e.event_id = ANY (event_ids);
  UPDATE engramlog.idempotency i SET digest = ''
    FROM unnest(actors, keys) AS used (actor, key)
    WHERE i.actor = used.actor AND i.key = used.key AND digest <> ''
      AND EXISTS (SELECT FROM engramlog.events e LEFT JOIN engramlog.payloads p USING (position)
        WHERE e.position BETWEEN first_position AND last_position AND p.position IS NULL);
END $$;

CREATE FUNCTION engramlog.scrub() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part text;
BEGIN
  FOR part IN DELETE FROM engramlog.unscrubbed RETURNING unscrubbed.part LOOP
    EXECUTE format('CLUSTER %s USING %I', part, split_part(part, '.', 2) || '_pkey');
  END LOOP;
  CLUSTER engramlog.idempotency USING idempotency_pkey;
END $$;

CREATE FUNCTION engramlog.position_at(instant bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  below bigint := 0;
  above bigint := coalesce((SELECT max(position) FROM engramlog.events), 0);
  middle bigint;
BEGIN
  WHILE below < above LOOP
    middle := (below + above + 1) / 2;
    IF (SELECT received_at FROM engramlog.events WHERE position = middle) <= instant THEN
      below := middle;
    ELSE
      above := middle - 1;
    END IF;
  END LOOP;
  RETURN below;
END $$;
""".replace("$PART", str(PART_POSITIONS))
"""``move_head`` is the fence: it fails unless the head is what its caller read under the lock.
``erase`` is the only way to delete; ``scrub`` rewrites the parts that lost payloads. ``make_room``
adds parts for payloads up to a position and returns the new limit. ``position_at`` bisects the log,
since receipt times never go back: an index would cost 20 bytes per event for a rare question."""

GUARDED = {
    "head": ("UPDATE", "check_head"),
    "streams": None,
    "events": None,
    "payloads": ("DELETE", "check_payload_deleted"),
    "idempotency": ("UPDATE", "check_key_blanked"),
    "erased": ("INSERT", "check_erased"),
}
"""By guarded table: the verb that a function checks, where one does."""


def _triggers() -> str:
    """Refuse every UPDATE, DELETE and TRUNCATE unless a check allows it."""
    statements: list[str] = []
    for table, check in GUARDED.items():
        verb, function = check or (None, None)
        refused = " OR ".join(each for each in ("UPDATE", "DELETE") if each != verb)
        statements += [
            f"CREATE TRIGGER {table}_append_only BEFORE {refused} ON engramlog.{table}"
            " FOR EACH ROW EXECUTE FUNCTION engramlog.refuse();",
            f"CREATE TRIGGER {table}_not_emptied BEFORE TRUNCATE ON engramlog.{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION engramlog.refuse();",
        ]
        if check is not None:
            statements.append(
                f"CREATE TRIGGER {table}_checked BEFORE {verb} ON engramlog.{table}"
                f" FOR EACH ROW EXECUTE FUNCTION engramlog.{function}();"
            )
    return "\n".join(statements)


_GRANTS = """
GRANT USAGE ON SCHEMA engramlog TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA engramlog TO {role};
GRANT INSERT ON engramlog.streams, engramlog.events, engramlog.payloads, engramlog.idempotency,
  engramlog.erased TO {role};
GRANT UPDATE (origin, epoch, position, received_at, received_hlc, hash, proofs)
  ON engramlog.head TO {role};
GRANT EXECUTE ON FUNCTION engramlog.erase, engramlog.scrub, engramlog.make_room,
  engramlog.position_at TO {role};
"""
_REVOKES = """
REVOKE ALL ON FUNCTION engramlog.erase, engramlog.scrub, engramlog.make_room,
  engramlog.position_at FROM PUBLIC;
"""


def prepare(url: str, role: str) -> None:
    """Make the tables of an empty log, as the owner in ``url``, for nodes that connect as ``role``.
    Raises DataDirectoryError: the database already holds a log, or has no such role. StorageFailed:
    the server cannot be reached or refuses."""
    with failures(), connect(url) as db, db.transaction():
        if db.execute("SELECT to_regnamespace('engramlog')").fetchone() != (None,):
            raise DataDirectoryError("the database holds a log already")
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
            raise DataDirectoryError(f"the server has no role {role!r}: create it first")
        db.execute(TABLES)
        db.execute(GUARDS.encode())
        db.execute(_triggers().encode())
        db.execute(
            sql.SQL("INSERT INTO engramlog.head (schema_version) VALUES ({})").format(
                SCHEMA_VERSION
            )
        )
        db.execute(_REVOKES)
        db.execute(sql.SQL(_GRANTS).format(role=sql.Identifier(role)))
        with suppress(psycopg.errors.InsufficientPrivilege), db.transaction():
            # Only for the metric of the standbys' lag.
            db.execute(sql.SQL("GRANT pg_monitor TO {}").format(sql.Identifier(role)))


def check_version(db: psycopg.Connection) -> None:
    """Raises DataDirectoryError without a log, or for another schema version."""
    if db.execute("SELECT to_regclass('engramlog.head')").fetchone() == (None,):
        raise DataDirectoryError(
            "the database holds no log: make one with 'engramlog log prepare', as its owner"
        )
    row = db.execute("SELECT schema_version FROM engramlog.head").fetchone()
    version = None if row is None else row[0]
    if version != SCHEMA_VERSION:
        raise DataDirectoryError(
            f"the log has schema {version}, this release reads {SCHEMA_VERSION}: "
            "use a release that knows it"
        )


def schema_fault(db: psycopg.Connection) -> str | None:
    """The first missing or disabled guard, or None."""
    present = {
        (str(table), str(name))
        for table, name in db.execute(
            "SELECT relname, tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
            " JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'engramlog' AND tgenabled IN ('O', 'A')"
        )
    }
    parts = db.execute(
        "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
        " WHERE inhparent = 'engramlog.payloads'::regclass"
    )
    tables = [*((name, name) for name in GUARDED), *((part, "payloads") for (part,) in parts)]
    wanted = {
        (table, f"{guarded}_{what}")
        for table, guarded in tables
        for what in ("append_only", "not_emptied")
    }
    wanted |= {(table, f"{guarded}_checked") for table, guarded in tables if GUARDED[guarded]}
    missing = sorted(wanted - present)
    if not missing:
        return None
    table, trigger = missing[0]
    return f"trigger {trigger} of {table} is missing or switched off"
