"""A node served on a real socket in a thread, for tests of the API."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from engramlog.api.http.app import AppRunner, create_app
from engramlog.api.http.connections import Connections, WatchedSite
from engramlog.api.node.node import Node
from engramlog.api.node.process.serving import listen
from engramlog.api.node.service import Service
from engramlog.api.node.tasks.consolidation_schedule import ConsolidationScheduler
from engramlog.api.node.tasks.recall_tracking import RecallTracker
from engramlog.api.settings import Settings
from engramlog.eventlog.clock import Clock
from tests.worlds.http_calls import Calls
from tests.worlds.waiting import SECONDS_MAX

CONTROL_TOKEN = "control-token-of-the-test-node-0123456789"
FACT_NOT_FOUND: tuple[int, dict[str, Any]] = (
    404,
    {
        "detail": "fact not found",
        "errors": [{"code": "fact_not_found", "message": "fact not found"}],
    },
)
"""Status and body of the answer for an absent or unreadable fact."""


class LiveNode:
    """An open node behind HTTP. ``call`` sends a request; ``clock`` may be the test's."""

    def __init__(self, path: Path, clock: Clock | None = None, **settings: Any) -> None:
        settings.setdefault("auth_required", False)
        settings.setdefault("recall_workers", 0)
        self.settings = Settings(data_dir=path, **settings)
        log, durability = self.settings.log, self.settings.log_durability
        self.node = Node.open(path, clock=clock, log=log, durability=durability)
        self._keys: dict[tuple[str, tuple[str, ...]], str] = {}
        self.app = create_app(self.node, self.settings, control_token=CONTROL_TOKEN)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(SECONDS_MAX)
        self.url = f"http://127.0.0.1:{port}"
        self.http = Calls(self.url)

    async def _start(self) -> int:
        self._runner = AppRunner(self.app, access_log=None)
        await self._runner.setup()
        most = self.settings.connections_max, self.settings.connections_per_address_max
        self._connections = Connections(*most)
        await WatchedSite(self._runner, listen("127.0.0.1", 0), self._connections).start()
        return int(self._runner.addresses[0][1])

    async def _end(self) -> None:
        await self._runner.cleanup()
        await self._connections.end()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS_MAX)

    def run_soon(self, coroutine: Any) -> None:
        """Begin a coroutine in the server's loop."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def app_scheduler(self) -> ConsolidationScheduler:
        """The scheduler of consolidation rules; ``run(app_scheduler().tick())`` runs it now."""
        return self.app.service.scheduler

    def call(self, method: str, path: str, *, key: str | None = None, **options: Any) -> Any:
        """One request; the answer with its status, headers and JSON."""
        headers = dict(options.pop("headers", {}))
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        if "content" in options:
            headers.setdefault("Content-Type", "application/json")
        return self.http.request(method, path, headers=headers, **options)

    def open_connections(self) -> int:
        return len(self._connections)

    def service(self) -> Service:
        """The handlers' shared service."""
        return self.app.service

    def app_tracker(self) -> RecallTracker:
        """The tracker of counts and receipts before they are logged."""
        return self.app.service.tracker

    def state(self, **fields: Any) -> dict[str, Any]:
        """Assert a fact with sensible defaults; must succeed."""
        answer = self.call("POST", "/v1/facts", key=fields.pop("key", None), json=fact(**fields))
        assert answer.status_code == 201, answer.text
        return answer.json()

    def mint(self, *permissions: str, entity: str = "agent:caller", **fields: Any) -> str:
        """A key with these permissions, for any source; returns the raw key."""
        fields.setdefault("sources", ["*"])
        raw_key = f"key-{entity}-{'-'.join(permissions)}-{fields.get('scopes', '')}".ljust(40, "x")
        raw_key = raw_key.replace(" ", "").replace("'", "")
        answer = self.call(
            "POST",
            "/v1/auth/keys",
            key=CONTROL_TOKEN,
            json={
                "raw_key": raw_key,
                "entity_uri": entity,
                "permissions": list(permissions),
                **fields,
            },
        )
        assert answer.status_code == 201, answer.text
        return raw_key

    def key_of(self, name: str, *permissions: str) -> str:
        """The key of ``agent:NAME`` with these permissions (read and write), made once."""
        wanted = permissions or ("read", "write")
        if (name, wanted) not in self._keys:
            self._keys[name, wanted] = self.mint(*wanted, entity=f"agent:{name}")
        return self._keys[name, wanted]

    def stop(self) -> None:
        """Stop serving, gracefully; the node stays open. Idempotent."""
        if self._loop.is_closed():
            return
        self.http.close()
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()

    def close(self) -> None:
        self.stop()
        self.node.close()


def fact(**fields: Any) -> dict[str, Any]:
    """An assert body with sensible defaults. ``v`` and ``type`` make the value."""
    value: dict[str, Any] = {"type": fields.pop("type", "string"), "v": fields.pop("v", "CEO")}
    if value["type"] == "null":
        del value["v"]
    if "interpret_as" in fields:
        value["interpret_as"] = fields.pop("interpret_as")
    return {
        "entity": "stigmem://t.example/user/alice",
        "relation": "memory:role",
        "value": value,
        "source": "stigmem://t/agent/a",
        "scope": "company",
        **fields,
    }
