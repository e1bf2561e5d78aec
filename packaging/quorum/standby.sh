#!/bin/sh
# A standby: copies the primary at its first start, and then runs as the image does.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    export PGPASSWORD="$POSTGRES_PASSWORD"
    until pg_basebackup -R -c fast -X stream -D "$PGDATA" \
        -d "${PRIMARY:-host=one} user=replicator application_name=$STANDBY"; do
        rm -rf "${PGDATA:?}"/*
        sleep 1
    done
fi
exec docker-entrypoint.sh postgres
