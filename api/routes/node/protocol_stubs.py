"""Routes that the protocol requires of every node, with little to answer here (wire 2.2)."""

from typing import Literal, NoReturn

import numpy as np
from msgspec import Struct

from engramlog.api.http.call import Call
from engramlog.api.http.errors import plain
from engramlog.api.http.routing import Routes

routes = Routes("node")


class CidBackfill(Struct):
    """Facts that the caller may read; every fact has had a content id from the start."""

    total_facts: int
    backfilled_facts: int
    pending_facts: int = 0
    backfill_complete: bool = True


class Connector(Struct):
    """An editor that can start an MCP server, and its configuration file."""

    editor: str
    label: str
    validation_tier: Literal["validated", "caveated", "experimental"]
    docs_link: str
    config_path: str
    config_format: Literal["json", "jsonc", "toml"]


class Connectors(Struct):
    """``command`` and ``env``: the contents of that file."""

    version: Literal["1"]
    connectors: list[Connector]
    command: list[str]
    env: dict[str, str]


CONNECTORS: tuple[tuple[str, str, str, Literal["json", "jsonc", "toml"]], ...] = (
    ("claude-code", "Claude Code", "~/.claude.json", "json"),
    ("codex-cli", "Codex CLI", "~/.codex/config.toml", "toml"),
    ("gemini-cli", "Gemini CLI", "~/.gemini/settings.json", "json"),
    ("continue-dev", "Continue.dev", "~/.continue/config.json", "json"),
    ("cursor", "Cursor", "~/.cursor/mcp.json", "json"),
    ("zed", "Zed", "~/.config/zed/settings.json", "jsonc"),
)
"""Editor, label, configuration file and format, as the protocol lists them."""


@routes.add("GET /v1/admin/cid-backfill/status", permission="read")
def cid_backfill(call: Call) -> CidBackfill:
    """Whether every fact has a content id: always so here."""
    total = int(np.count_nonzero(call.authorization.mask(call.view())))
    return CidBackfill(total, total)


@routes.add("POST /v1/auth/oidc/exchange", permission="none", errors=(503,))
async def oidc_exchange(_: Call) -> NoReturn:
    """The node takes no identity tokens: admins make keys."""
    raise plain("oidc_not_enabled")


@routes.add("GET /v1/mcp/connectors", permission="none")
async def mcp_connectors(call: Call) -> Connectors:
    """Editors that start MCP servers, and their configuration. All are untested."""
    url = call.service.settings.public_url
    return Connectors(
        version="1",
        connectors=[
            Connector(editor, label, "experimental", f"{url}/docs", path, form)
            for editor, label, path, form in CONNECTORS
        ],
        command=["engramlog", "mcp"],
        env={"STIGMEM_URL": url, "STIGMEM_API_KEY": ""},
    )
