"""The SDK's client, connected to ``engramlog mcp`` over stdio or HTTP."""

import asyncio
import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from tests.worlds.processes import ROOT, NodeProcess, environment
from tests.worlds.warm import shim

KEY = "mcp-key-of-ann-" + "x" * 40


@contextmanager
def serving_http(node: NodeProcess, *args: str) -> Generator[str]:
    """The URL of an MCP server over HTTP with Ann's key."""
    command = [
        sys.executable,
        "-m",
        "engramlog.api.cli.main",
        "mcp",
        "--transport",
        "http",
        "--port",
        "0",
        *args,
    ]
    env = environment({"STIGMEM_URL": node.url, "STIGMEM_API_KEY": KEY})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    with process.stdout as lines:
        words = lines.readline().decode().split()
        assert words[:3] == ["engramlog", "mcp", "serving"]
        try:
            yield words[3]
        finally:
            process.terminate()
            assert process.wait(20) == 0


@cache
def command() -> str:
    """``engramlog`` without the seconds that Python needs to load the SDK. A directory as memory,
    and the server over HTTP, start as a client starts them."""
    folder = tempfile.mkdtemp(prefix="engramlog-mcp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shim(Path(folder), "engramlog.api.mcp.server", "engramlog.api.mcp.transports"))


def over_stdio(node: NodeProcess, *args: str, **env: str) -> StdioServerParameters:
    given = environment({"STIGMEM_URL": node.url, "STIGMEM_API_KEY": KEY, **env})
    return StdioServerParameters(command=command(), args=["mcp", *args], env=given, cwd=ROOT)


def talk(way: Any, story: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Run a story with a connected client."""

    failed: list[Exception] = []

    async def main() -> None:
        async with Client(way, read_timeout_seconds=60, **options) as client:
            try:
                await story(client)
            except Exception as fault:  # raised outside, where no task group wraps it
                failed.append(fault)

    asyncio.run(main())
    if failed:
        raise failed[0]


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool's answer; the text says nothing that the structure does not say."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    _check_part(json.loads(text_of(result)), result.structured_content)
    return result.structured_content


def _check_part(part: Any, whole: Any) -> None:
    if isinstance(part, dict):
        for name, each in part.items():
            _check_part(each, whole[name])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for each, other in zip(part, whole, strict=True):
            _check_part(each, other)
    else:
        assert part == whole


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a tool that must refuse."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    error = result.structured_content["error"]
    assert text_of(result) == f"{error['code']}: {error['message']}"
    return error
