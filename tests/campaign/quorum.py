"""Faults under writers that share a log in PostgreSQL (``tests/worlds/log_faults``)."""

from tests.worlds import postgres_servers
from tests.worlds.log_faults.cluster import Cluster
from tests.worlds.log_faults.schedule import Schedule


def run(count: int, seed: int) -> list[str]:
    """Run this many schedules; returns the faults."""
    reason = postgres_servers.missing()
    if reason is not None:
        print(f"  left out: {reason}", flush=True)
        return []
    faults: list[str] = []
    acknowledged = 0
    cluster = Cluster()
    try:
        for number in range(seed, seed + count):
            schedule = Schedule(cluster, number)
            try:
                verdict = schedule.run()
            except (TimeoutError, RuntimeError) as stuck:
                faults.append(f"seed {number}, {schedule.drawn}: {stuck}")
                print(f"  {faults[-1]}", flush=True)
                cluster.close()
                cluster = Cluster()
                continue
            acknowledged += verdict.acknowledged
            faults += [f"seed {number}, {schedule.drawn}: {fault}" for fault in verdict.faults]
    finally:
        cluster.close()
    print(f"  {count} schedules, {acknowledged} acknowledged writes", flush=True)
    return faults
