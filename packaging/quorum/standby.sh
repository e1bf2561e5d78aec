#!/bin/sh
# A standby: copies the primary at its first start, and then runs as the image does.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    export PGPASSWORD="$POSTGRES_PASSWORD"
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    rm -rf "${PGDATA:?}"/*
    until pg_basebackup -R -c fast -X stream -D "$PGDATA/copy" \
        -d "${PRIMARY:-host=one} user=replicator application_name=$STANDBY"; do
        rm -rf "$PGDATA/copy"
        sleep 1
    done
    # PG_VERSION comes last: a copy that was cut off begins again.
    find "$PGDATA/copy" -mindepth 1 -maxdepth 1 ! -name PG_VERSION -exec mv {} "$PGDATA" \;
    mv "$PGDATA/copy/PG_VERSION" "$PGDATA"
    rmdir "$PGDATA/copy"
fi
exec docker-entrypoint.sh postgres
