"""Fuzzing guided by coverage: atheris (libFuzzer) in place of chance, if installed.

``python -m tests.campaign.guided READER SECONDS SEED FOLDER`` is one run; it ends the process, so
each reader has its own. Inputs that reach new code go into ``FOLDER``.
"""

import hashlib
import importlib
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tests.campaign.fuzz import CORPUS, FOUND, SLOW_SECONDS, TARGETS, TOKENS
from tests.worlds.processes import ROOT

INPUT_BYTES_MAX = 8_192
KEPT_BYTES_MAX = 2_048
KEPT_MAX = 40
"""The most inputs that one run adds to the corpus of a reader: the smallest found."""
MEMORY_MB_MAX = 2_048


def run(count: int, seed: int) -> list[str]:
    """Run this many seconds per reader; returns the faults. New inputs join the corpus."""
    if find_spec("atheris") is None:
        return ["atheris is not installed: pip install atheris"]
    faults: list[str] = []
    for target in TARGETS:
        with tempfile.TemporaryDirectory() as name:
            args = (target.name, str(count), str(seed), name)
            done = subprocess.run(
                [sys.executable, "-m", "tests.campaign.guided", *args],
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            told = done.stderr.splitlines()
            if done.returncode:
                raised = [line for line in told if "Exception" in line or "Error" in line]
                kept = [path.read_bytes()[:200] for path in Path(name).glob("fault-*")]
                faults.append(f"{target.name}, seed {seed}: {raised[-1:] or told[-1:]} {kept}")
            added = _keep(target.name, Path(name) / "found")
            last = next((line for line in reversed(told) if "cov:" in line), "no coverage")
            print(f"  {target.name}: {added} new; {' '.join(last.split())}", flush=True)
    return faults


def _keep(name: str, found: Path) -> int:
    """Take the smallest new inputs into the corpus; how many."""
    folder = CORPUS / name
    known = {path.read_bytes() for path in folder.iterdir()}
    small = sorted((path.read_bytes() for path in found.iterdir()), key=len)
    fresh = [data for data in small if data not in known and len(data) <= KEPT_BYTES_MAX]
    for data in fresh[:KEPT_MAX]:
        (folder / f"{FOUND}{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
    return len(fresh[:KEPT_MAX])


def _fuzz(name: str, seconds: str, seed: str, folder: Path) -> None:
    """One reader under atheris, in this process; does not return."""
    atheris = importlib.import_module("atheris")
    for known in [each for each in sys.modules if each.startswith(("engramlog", "tests."))]:
        del sys.modules[known]  # import it again, with counted branches
    with atheris.instrument_imports(include=["engramlog"]):
        fuzz = importlib.import_module("tests.campaign.fuzz")
    (target,) = [each for each in fuzz.TARGETS if each.name == name]

    def one_input(data: bytes) -> None:
        with suppress(target.refusals):
            target.read(data)

    found, words = folder / "found", folder / "words"
    found.mkdir()
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS))
    options = (
        f"-max_total_time={seconds}", f"-seed={int(seed) + 1}", f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={int(SLOW_SECONDS * 5)}", f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-dict={words}", f"-artifact_prefix={folder}/fault-",
    )  # fmt: skip
    atheris.Setup([name, *options, str(found), str(CORPUS / name)], one_input)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token[:60])


if __name__ == "__main__":
    _fuzz(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
