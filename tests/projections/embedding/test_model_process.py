"""The bundled model in its own process."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from engramlog.projections.embedding.errors import ModelFileError, ProviderUnavailable
from engramlog.projections.embedding.providers.bundled import weights
from engramlog.projections.embedding.providers.bundled.minilm import FLOAT32, INT8, MiniLM
from engramlog.projections.embedding.providers.bundled.model_process import (
    ANSWER_SECONDS_MAX,
    SERVER,
    EmbeddingRequest,
    ModelProcess,
    _ahead,
    _decode_answer,
    encode,
    started_ahead,
)
from engramlog.projections.embedding.providers.provider import Purpose
from engramlog.projections.embedding.recipe import Space, bundled_model, vectors_file

TEXTS = ["That is a happy person", "memory:role CEO", "one two three " * 40]


@pytest.fixture
def model() -> Generator[ModelProcess]:
    found = ModelProcess("minilm", INT8, 384)
    yield found
    found.close()


def pid_of(model: ModelProcess) -> int:
    assert model._link is not None
    return model._link._process.pid


def test_it_does_not_report_its_use(
    model: ModelProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ONNX Runtime reports unless told not to, or in the runs of some services. It keeps what waits
    # to be sent, and the name that it gave the machine, below the folder of caches.
    for name in ("ORT_DISABLE_TELEMETRY", "CI", "GITHUB_ACTIONS", "TF_BUILD", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    model.embed(TEXTS)
    assert [*tmp_path.rglob("*")] == []


def test_it_loads_no_module_of_the_folder_where_the_node_was_started(
    model: ModelProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnx.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert model.embed(TEXTS).shape == (3, 384)


def test_its_vectors_are_those_of_the_model(model: ModelProcess) -> None:
    expected = MiniLM().embed(TEXTS)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(model.embed(TEXTS[:1], "query"), expected[:1], atol=1e-6)
    assert model.embed([]).shape == (0, 384)


def test_it_is_started_with_the_first_text_and_ends_with_close(model: ModelProcess) -> None:
    assert model._link is None
    model.embed(["a text"])
    pid = pid_of(model)
    model.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ProviderUnavailable, match="stopped"):
        model.embed(["another"])


def test_starting_it_returns_once_it_answers(model: ModelProcess) -> None:
    model.start()
    pid = pid_of(model)
    assert model._link is not None
    assert model._link.answered
    os.kill(pid, signal.SIGSTOP)  # a model that answered is asked nothing
    model.start()
    os.kill(pid, signal.SIGCONT)
    assert pid_of(model) == pid


def test_it_ends_without_a_word_when_its_node_dies_amid_documents() -> None:
    for _ in range(4):  # each of them is amid the model's C++ more often than not
        here, there = Pipe()
        with there:
            process = subprocess.Popen(
                [sys.executable, "-m", SERVER, str(there.fileno()), INT8],
                pass_fds=(there.fileno(),),
                stderr=subprocess.PIPE,
            )
        with process:
            for number in range(40):
                texts = ["some words"] if number == 0 else ["one two three " * 20] * 16
                here.send_bytes(encode(EmbeddingRequest(number, "document", texts)))
            answered = [_decode_answer(here.recv_bytes()).number for _ in range(2)]
            here.close()
            assert process.communicate() == (None, b"")
        assert (answered, process.returncode) == ([0, 1], 0)


def test_a_process_started_ahead_is_the_one_that_answers() -> None:
    with started_ahead(INT8):
        first = _ahead[INT8]._process.pid
        model = ModelProcess("minilm", INT8, 384)
    with closing(model):
        assert model.embed(["a text"]).shape == (1, 384)
        assert pid_of(model) == first


def test_a_process_started_ahead_that_no_model_takes_ends(model: ModelProcess) -> None:
    with started_ahead(INT8):
        first = _ahead[INT8]._process.pid
        model.embed(["a text"])
    assert pid_of(model) != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_no_process_starts_ahead_where_the_model_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "RUNTIME", ("no_such_library",))
    with started_ahead(INT8):
        assert not _ahead


def test_the_folder_of_vectors_tells_the_bundled_model(tmp_path: Path) -> None:
    assert bundled_model(tmp_path) is None
    (tmp_path / vectors_file(Space("ollama", "nomic-embed-text", 768))).touch()
    assert bundled_model(tmp_path) is None
    (tmp_path / vectors_file(Space("minilm", FLOAT32, 384))).touch()
    assert bundled_model(tmp_path) == FLOAT32


def killed_while(model: ModelProcess, purpose: Purpose) -> list[object]:
    """The outcome of a text that waits while the process is killed."""
    model.embed(["a text"])
    first = pid_of(model)
    os.kill(first, signal.SIGSTOP)  # so that the request must wait
    came: list[object] = []

    def ask() -> None:
        try:
            came.append(model.embed(["waits"], purpose).shape)
        except ProviderUnavailable as fault:
            came.append(str(fault))

    asking = threading.Thread(target=ask)
    asking.start()
    while not model._link._waiting:  # pyright: ignore[reportOptionalMemberAccess]
        pass
    os.kill(first, signal.SIGKILL)
    asking.join(30)
    assert model.embed(["again"]).shape == (1, 384)
    assert pid_of(model) != first
    return came


def test_a_dead_process_fails_the_documents_that_wait_and_is_replaced(model: ModelProcess) -> None:
    assert killed_while(model, "document") == ["the embedding process ended"]


def test_a_process_that_answers_nothing_in_time_is_replaced(
    model: ModelProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.embed(["a text"])
    first = pid_of(model)
    monkeypatch.setitem(ANSWER_SECONDS_MAX, "query", 0.01)
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(ProviderUnavailable, match="does not answer"):
        model.embed(["a question"], "query")
    monkeypatch.undo()
    assert model.embed(["a question"], "query").shape == (1, 384)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_process_that_still_loads_outlasts_a_question(
    model: ModelProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(ANSWER_SECONDS_MAX, "query", 0.001)
        with pytest.raises(ProviderUnavailable, match="does not answer"):
            model.embed(["a question"], "query")
    first = pid_of(model)
    assert model.embed(["a question"], "query").shape == (1, 384)
    assert pid_of(model) == first


def test_a_question_that_waits_is_asked_of_the_next_process(model: ModelProcess) -> None:
    assert killed_while(model, "query") == [(1, 384)]


def test_a_question_that_cannot_be_sent_is_asked_of_the_next_process(model: ModelProcess) -> None:
    model.embed(["a text"])
    first = pid_of(model)
    os.kill(first, signal.SIGSTOP)  # so that only the sending thread notices the end
    assert model._link is not None
    with socket.socket(fileno=os.dup(model._link._connection.fileno())) as sending:
        sending.shutdown(socket.SHUT_WR)
    assert model.embed(["a question"], "query").shape == (1, 384)
    assert pid_of(model) != first


def test_questions_do_not_wait_behind_documents(model: ModelProcess) -> None:
    model.embed(["a text"])
    documents = threading.Thread(target=model.embed, args=(["word " * 200] * 30,))
    documents.start()
    for number in range(3):
        model.embed([f"question {number}"], "query")
    assert documents.is_alive(), "all questions were answered while documents were embedded"
    documents.join()


def test_a_text_does_not_wait_behind_many(model: ModelProcess) -> None:
    model.start()
    many = threading.Thread(target=model.embed, args=(["word " * 200] * 64,))
    many.start()
    while not model._running()._waiting:
        many.join(0.001)
    model.embed(["one text"])
    assert many.is_alive(), "all texts were embedded before the one"
    many.join()


def test_vectors_do_not_depend_on_the_texts_beside_them(model: ModelProcess) -> None:
    texts = [f"{number} {'word ' * (number % 50)}" for number in range(70)]
    together = model.embed(texts)
    assert np.array_equal(together, np.concatenate([model.embed([text]) for text in texts]))


def test_missing_weights_are_named(
    model: ModelProcess, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process finds the package by its name on the module path: shadow it with an empty one.
    import pathlib

    for name in weights.PACKAGES:
        folder = pathlib.Path(str(tmp_path)) / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        model.embed(["a text"])
