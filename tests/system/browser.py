"""A real browser for tests: Chromium without a window, told what to do over its own protocol."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
SECONDS = 60.0


class Page:
    """One tab. ``said`` holds what the browser logged: errors of scripts and of policy."""

    def __init__(self, socket_url: str) -> None:
        self.said: list[str] = []
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._session: str | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._connect(socket_url))
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, and what the browser answers."""
        return self._run(self._send(method, parameters))

    def open(self, url: str) -> None:
        """Go to an address."""
        self.send("Page.navigate", url=url)
        self.until(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def ask(self, script: str) -> Any:
        """What an expression comes to on the page."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression holds."""
        deadline = time.monotonic() + SECONDS
        while not self.ask(f"Boolean({script})"):
            assert time.monotonic() < deadline, (script, self.ask("document.body.innerText"))
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """What is to be read in an element."""
        return str(self.ask(f"document.querySelector({selector!r}).innerText"))

    def fill(self, selector: str, text: str) -> None:
        """Put a value into a field, as a person would see it afterwards."""
        self.ask(f"document.querySelector({selector!r}).value = {text!r}")

    def click(self, selector: str) -> None:
        """Click an element."""
        self.ask(f"document.querySelector({selector!r}).click()")

    def close(self) -> None:
        """Let go of the browser."""
        self._run(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _connect(self, url: str) -> None:
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(url, max_msg_size=0)
        self._reading = asyncio.create_task(self._read())

    async def _disconnect(self) -> None:
        await self._socket.close()
        await self._reading
        await self._http.close()

    async def _send(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._numbers += 1
        number = self._numbers
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message)
        answer = await waiting
        assert "error" not in answer, answer
        return answer["result"]

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if told.get("id") in self._waiting:
                self._waiting.pop(told["id"]).set_result(told)
            elif told.get("method") == "Log.entryAdded":
                self.said.append(told["params"]["entry"]["text"])
            elif told.get("method") == "Runtime.exceptionThrown":
                self.said.append(str(told["params"]["exceptionDetails"]))


@contextmanager
def browsing(folder: Path) -> Generator[Page]:
    """A tab of a browser whose profile lies in ``folder``."""
    assert BROWSER is not None
    process = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    drained = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        url = ""
        for line in process.stderr:
            if "DevTools listening on " in line:
                url = line.split("DevTools listening on ")[1].strip()
                break
        drained.start()
        page = Page(url)
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(SECONDS)
        if drained.is_alive():
            drained.join(SECONDS)
        process.stderr.close()
