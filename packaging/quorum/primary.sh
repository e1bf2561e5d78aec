#!/bin/sh
# The image of PostgreSQL runs this once, while it makes the primary's directory.
set -eu
psql -q -v ON_ERROR_STOP=1 -v password="$POSTGRES_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'password';
CREATE ROLE node LOGIN PASSWORD :'password';
ALTER SYSTEM SET wal_keep_size = '1GB';
-- From the next start on: until the standbys are there, nothing is acknowledged.
ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (one, two, three)';
SQL
echo 'host replication replicator all scram-sha-256' >>"$PGDATA/pg_hba.conf"
