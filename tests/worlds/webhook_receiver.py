"""A receiver of webhooks on a socket of this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """A webhook's receiver; ``answers`` are the statuses it gives, the last for ever. With
    ``turns``, each answer waits for one."""

    def __init__(self, *answers: int) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers = list(answers) or [204]
        self.turns: threading.Semaphore | None = None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                if receiver.turns is not None:
                    receiver.turns.acquire()
                many = len(receiver.answers) > 1
                self.send_response(receiver.answers.pop(0) if many else receiver.answers[0])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    def close(self) -> None:
        if self.turns is not None:
            self.turns.release(1_000)
        self._server.shutdown()
        self._server.server_close()
