"""Three servers, each behind a proxy: failing over as an operator should, and repair."""

from contextlib import suppress
from typing import LiteralString

import psycopg

from tests.worlds.log_faults.proxy import Proxy
from tests.worlds.postgres_servers import Server, Servers, wait_until

CONNECT = "connect_timeout=2"
DISK_MB = 700


class Cluster:
    """``primary`` is the server that takes writes now. ``fillable``: whether the servers' disks can
    be filled."""

    def __init__(self) -> None:
        self._servers = Servers()
        self.folder = self._servers.folder
        self.fillable = True
        try:
            self.servers = self._servers.quorum(DISK_MB)
        except OSError:  # no disk can be mounted here
            self._servers.close()
            self._servers = Servers()
            self.folder = self._servers.folder
            self.fillable = False
            self.servers = self._servers.quorum()
        self.primary = self.servers[0]
        self.proxies = {server.name: Proxy(server.port) for server in self.servers}

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        self._servers.close()

    @property
    def standbys(self) -> list[Server]:
        return [server for server in self.servers if server is not self.primary]

    def nodes_url(self, user: str = "node") -> str:
        """The address with which nodes find the server that takes writes, through the proxies."""
        hosts = ",".join(f"127.0.0.1:{self.proxies[each.name].port}" for each in self.servers)
        return f"postgresql://{user}@{hosts}/postgres?connect_timeout=2"

    def fail_over(self, old: Server) -> None:
        """Promote the most advanced standby, once no commit can reach the old primary's quorum.

        An acknowledged write is on at least one standby, so both must be visible before the choice.
        The caller brings back the old primary, dead or stopped.
        """
        both = [server for server in self.servers if server is not old]
        for standby in both:
            standby.configure("primary_conninfo = ''\n")
            standby.reload()
        wait_until(lambda: all(_receives_nothing(each) for each in both), "standbys are cut off")
        chosen = max(both, key=_received)
        (other,) = (each for each in both if each is not chosen)
        chosen.promote()
        self.primary = chosen
        other.follow(chosen)
        other.reload()

    def rejoin(self, server: Server) -> None:
        """Make a failed server a standby, from a new copy."""
        server.kill()
        server.clear()
        server.clone(self.primary)
        server.start()

    def heal_standbys(self) -> None:
        """Start both standbys, so that one can be chosen."""
        for server in self.standbys:
            server.resume()
            if server.process is None:
                server.start()

    def heal(self) -> None:
        """Start all servers; they follow the primary and catch up."""
        for proxy in self.proxies.values():
            proxy.heal()
        for server in self.servers:
            server.resume()
            server.free_disk()
            server.revive()
        wait_until(lambda: self._streaming() == 2, "both standbys follow the primary")

    def _streaming(self) -> int:
        with (
            suppress(psycopg.Error),
            psycopg.connect(self.primary.url() + "?" + CONNECT, autocommit=True) as db,
        ):
            row = db.execute(
                "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
                " AND sync_state <> 'async'"
            ).fetchone()
            return 0 if row is None else int(row[0])
        return 0


def _asked(server: Server, statement: LiteralString) -> object:
    with psycopg.connect(server.url() + "?" + CONNECT, autocommit=True) as db:
        row = db.execute(statement).fetchone()
    return None if row is None else row[0]


def _receives_nothing(server: Server) -> bool:
    return _asked(server, "SELECT count(*) FROM pg_stat_wal_receiver") == 0


def _received(server: Server) -> int:
    found = _asked(server, "SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint")
    return int(str(found or 0))
