"""Figures of this process and its release, under Prometheus' usual names."""

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import process_time

from engramlog.api.http.metrics import Sample
from engramlog.api.release import release

_PROC = Path("/proc/self")


def process_samples() -> Iterator[Sample]:
    """CPU; and if ``/proc`` has them, memory, files and the start."""
    yield Sample(
        "engramlog_build_info",
        "1; the release and its Python.",
        1,
        f'{{version="{release()}",python="{platform.python_version()}"}}',
    )
    yield Sample("process_cpu_seconds_total", "CPU time used.", process_time())
    with suppress(OSError):
        pages = (_PROC / "statm").read_text().split()
        size, resident = (int(each) * resource.getpagesize() for each in pages[:2])
        yield Sample("process_virtual_memory_bytes", "Virtual memory.", size)
        yield Sample("process_resident_memory_bytes", "Resident memory.", resident)
        yield Sample("process_open_fds", "Open files.", len(os.listdir(_PROC / "fd")))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield Sample("process_max_fds", "Files that may be open.", limit)
        yield Sample("process_start_time_seconds", "Start, since 1970.", _started())


@cache
def _started() -> float:
    """When the process started, in seconds since 1970. Raises OSError."""
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime")
    )
    after_name = (_PROC / "stat").read_text().rpartition(")")[2].split()
    return boot + int(after_name[19]) / os.sysconf("SC_CLK_TCK")
