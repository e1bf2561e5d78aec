"""The process that holds the bundled model: texts in, unit vectors out.

``model_process`` starts it with one end of a socket. Questions have a separate thread, so that none
waits for documents.
"""

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

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

RequestQueue = queue.SimpleQueue[EmbeddingRequest]
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
    questions, documents = RequestQueue(), RequestQueue()
    workers = max(1, (os.cpu_count() or 1) // CORES_A_DOCUMENT_THREAD)
    for requests in (questions, *[documents] * workers):
        threading.Thread(target=_answer, args=(model, requests, reply), daemon=True).start()
    try:
        while True:
            request = decode_request(connection.recv_bytes())
            (questions if request.purpose == "query" else documents).put(request)
    except (EOFError, OSError):
        return 0


def _answer(model: MiniLM, requests: RequestQueue, reply: Reply) -> None:
    try:
        while True:
            request = requests.get()
            rows = model.embed(request.texts, request.purpose)
            reply(EmbeddingAnswer(request.number, rows.tobytes()))
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
