"""The process that holds the bundled model: texts in, unit vectors out.

``model_process`` starts it with one end of a socket. Questions have a separate thread, so that none
waits for documents. Requests of documents take turns of a few texts, so that a write that needs one
vector does not wait for a backlog.
"""

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np

from engramlog.projections.embedding.errors import ModelFileError
from engramlog.projections.embedding.providers.bundled.minilm import MiniLM
from engramlog.projections.embedding.providers.bundled.model_process import (
    EmbeddingAnswer,
    EmbeddingRequest,
    decode_request,
    encode,
)

CORES_A_DOCUMENT_THREAD = 2
"""The other half of the machine is for questions and for the node."""

TURN_TEXTS = 16


class _Work:
    """A request and its vectors so far. Texts of like length come together, which spares time."""

    def __init__(self, request: EmbeddingRequest, dimensions: int) -> None:
        self.request = request
        self._waiting = sorted(range(len(request.texts)), key=lambda n: -len(request.texts[n]))
        self._rows = np.empty((len(request.texts), dimensions), dtype=np.float32)

    def turn(self, model: MiniLM) -> bool:
        """Embed the next texts, shortest first; False after the last."""
        places = [self._waiting.pop() for _ in range(min(TURN_TEXTS, len(self._waiting)))]
        texts = [self.request.texts[place] for place in places]
        self._rows[places] = model.embed(texts, self.request.purpose)
        return bool(self._waiting)

    def answer(self) -> EmbeddingAnswer:
        return EmbeddingAnswer(self.request.number, self._rows.tobytes())


WorkQueue = queue.SimpleQueue[_Work]
Reply = Callable[[EmbeddingAnswer], None]


def run(handle: int, name: str) -> int:
    """Serve a model on one socket until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node decides when to end
    connection = Connection(handle)
    sending = threading.Lock()

    def reply(answer: EmbeddingAnswer) -> None:
        with sending:
            connection.send_bytes(encode(answer))

    try:
        model = MiniLM(name)
    except ModelFileError as fault:
        return _refuse_all(connection, str(fault))
    questions, documents = WorkQueue(), WorkQueue()
    workers = max(1, (os.cpu_count() or 1) // CORES_A_DOCUMENT_THREAD)
    for waiting in (questions, *[documents] * workers):
        threading.Thread(target=_answer, args=(model, waiting, reply), daemon=True).start()
    try:
        while True:
            request = decode_request(connection.recv_bytes())
            waiting = questions if request.purpose == "query" else documents
            waiting.put(_Work(request, model.dimensions))
    except (EOFError, OSError):
        return 0


def _answer(model: MiniLM, waiting: WorkQueue, reply: Reply) -> None:
    try:
        while True:
            work = waiting.get()
            if work.turn(model):
                waiting.put(work)
            else:
                reply(work.answer())
    except BaseException:  # the node starts another process
        traceback.print_exc()
        os._exit(1)


def _refuse_all(connection: Connection, fault: str) -> int:
    try:
        while True:
            request = decode_request(connection.recv_bytes())
            connection.send_bytes(encode(EmbeddingAnswer(request.number, b"", fault)))
    except (EOFError, OSError):
        return 1


if __name__ == "__main__":
    # An orderly end of Python would abort in a thread that is inside the model, which is C++.
    os._exit(run(int(sys.argv[1]), sys.argv[2]))
