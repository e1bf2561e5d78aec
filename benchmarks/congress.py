"""The congress-legislators stream through ``import``, and every probe as of its position.

Baseline: a store that knows only the current state answers 47 % of the probes.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from benchmarks.report import Figure, Stopwatch, percentile, say
from benchmarks.serving import RawClient, serving

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "congress"
ENVIRONMENT = {"STIGMEM_SET_VALUED_RELATIONS": "congress:*"}
CURRENT_STATE_SHARE = 0.47


def measure(facts: int) -> list[Figure]:
    """Figures for the whole stream (``facts`` is not used)."""
    del facts
    if not DATA.exists():
        say("congress: skipped, ../shared/data/congress is not here")
        return []
    with tempfile.TemporaryDirectory() as name:
        data, receipts = Path(name) / "node", Path(name) / "receipts.jsonl"
        say("import of the congress stream")
        command = [
            sys.executable, "-m", "engramlog", "import", str(DATA / "events.jsonl.gz"),
            "--data", str(data), "--mapping", str(ROOT / "fixtures/mappings/congress.json"),
            "--receipts", str(receipts), "--quiet",
        ]  # fmt: skip
        watch = Stopwatch()
        subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT})
        seconds = watch.seconds
        positions = [json.loads(line)["position"] for line in receipts.read_text().splitlines()]
        exact, latencies = _probes(data, positions)
    total = len(latencies)
    return [
        Figure("congress import", len(positions) / seconds, "lines/s", aim="≥ 4,000"),
        Figure("congress probes exact", 100 * exact / total, "%", "current state only",
               exact / total / CURRENT_STATE_SHARE, "100 %"),
        Figure("congress probe, p50", percentile(latencies, 0.5) * 1e3, "ms"),
    ]  # fmt: skip


def _probes(data: Path, positions: list[int]) -> tuple[int, list[float]]:
    probes = [json.loads(line) for line in (DATA / "probes.jsonl").read_text().splitlines()]
    exact, latencies = 0, list[float]()
    with serving(data, env=ENVIRONMENT) as url:
        client = RawClient(url)
        for probe in probes:
            path = (
                f"/v1/facts?entity={quote('stigmem://congress.example/' + probe['s'])}"
                f"&relation={quote('congress:' + probe['r'])}&include_expired=true&limit=500"
                f"&as_of=position:{positions[probe['seq_after'] - 1]}"
            )
            watch = Stopwatch()
            _, body = client.request("GET", path)
            latencies.append(watch.seconds)
            found = {fact["value"]["v"] for fact in json.loads(body)["facts"]}
            exact += found == set(probe["expected"])
        client.close()
    return exact, latencies
