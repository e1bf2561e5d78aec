"""Places of a memory: opened here, served by a node, or held by a process that does not serve."""

import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engramlog import ClientError, EventLogError, Memory
from engramlog.api.cli.main import main
from engramlog.api.client.client import Client
from engramlog.api.node.node import Node
from engramlog.api.node.process.control_file import Control, control_file
from engramlog.api.node.process.serving import serve_in_background
from engramlog.api.node.replicating import ReplicaError, source_of
from engramlog.api.python import transport
from engramlog.api.settings import Settings
from engramlog.projections.http_exchange import AnswerLimits
from tests.worlds.processes import engramlog, environment, serving


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_EMBED_ENABLED", "false")


def test_a_new_directory_declares_the_usual_relations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STIGMEM_SET_VALUED_DEFAULTS", "true")
    with Memory(tmp_path / "memory") as memory:
        for liked in ("tea", "cake"):
            memory.assert_fact("user:ann", "memory:likes", liked)
        assert [fact.value for fact in memory.facts("user:ann")] == ["cake", "tea"]


def test_a_directory_opens_once_under_any_of_its_names(tmp_path: Path) -> None:
    """As a notebook does that runs a cell again."""
    first, second = Memory(tmp_path / "memory"), Memory(f"{tmp_path}/other/../memory")
    kept = first.remember("tea at four", user="ann")
    assert list(second.facts(user="ann")) == [kept]
    first.close()
    first.close()
    assert list(second.facts(user="ann")) == [kept]
    with pytest.raises(ClientError, match="this memory is closed"):
        first.facts()
    second.close()
    Node.open(tmp_path / "memory").close()  # no process holds it now


def test_a_served_directory_is_reached_through_its_node(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    node = Node.open(path)
    try:
        settings = Settings(data_dir=path, port=0, recall_workers=0)
        with (
            serve_in_background(node, settings) as where,
            control_file(path, where),
            Memory(path) as memory,
        ):
            kept = memory.remember("tea at four")
            assert kept.source == "user:me"
            assert node.reader.slot_of(kept.id) is not None
    finally:
        node.close()


def test_a_directory_is_reached_through_a_node_that_was_started_again(tmp_path: Path) -> None:
    """With another token, on the same port or on another."""
    path = tmp_path / "memory"
    with serving(path) as first:
        memory = Memory(path)
        memory.remember("tea at four")
        port = first.url.rpartition(":")[2]
    with pytest.raises(ClientError, match="cannot reach"):
        memory.facts()
    for options in (("--port", port), ()):
        with serving(path, *options):
            assert [fact.value for fact in memory.facts()] == ["tea at four"]
    memory.close()


def test_a_held_directory_is_refused_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    node = Node.open(path)
    try:
        # A killed node's control file has a dead address.
        dead = Control(1, "http://127.0.0.1:9", "token")
        refusal = pytest.raises(EventLogError, match=r"with pid \d+")
        with control_file(path, dead), refusal as refused:
            Memory(path)
        assert str(refused.value).endswith(f"serve it: engramlog serve --data {path}")
    finally:
        node.close()


def test_an_address_without_its_scheme_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for address in ("localhost:8765", "localhost:8765/", "[::1]:8765"):
        with pytest.raises(ClientError, match="' is not an http:// or https:// URL"):
            Memory(address)
    assert not list(tmp_path.iterdir())
    Path("localhost:8765").mkdir()
    Memory("localhost:8765").close()


def test_a_key_is_for_a_url_and_a_url_is_one(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="needs no key"):
        Memory(tmp_path, key="secret")
    with pytest.raises(ClientError, match="is not an http:// or https:// URL"):
        Memory("ftp://memory.example")
    with Memory("http://127.0.0.1:9") as nowhere, pytest.raises(ClientError) as fault:
        nowhere.facts()
    assert fault.value.status == 0
    assert str(fault.value) == "cannot reach http://127.0.0.1:9: Connection refused"


def test_a_key_with_a_line_end_is_taken_and_no_fault_repeats_a_key(tmp_path: Path) -> None:
    secret = "a-secret-of-one-test-0123456789-0123456789"
    command = ["key", "create", "--entity-uri", "agent:x", "--raw-key", "-"]
    command += ["--permission", "read", "--permission", "replicate"]
    data = tmp_path / "memory"
    made = engramlog(*command, "--data", data, stdin=secret.encode())
    assert made.returncode == 0, made.stderr
    with serving(data) as node:
        for key in (f"{secret}\n", f"{secret}\r\n"):
            with Memory(node.url, key=key) as memory:
                assert len(memory.facts()) == 0
            with Client(node.url, key) as client:
                assert client.get("/v1/me")["entity_uri"] == "agent:x"
            assert source_of(node.url, key).documents() == []
    for key in (f"{secret}\nx", f"\N{RIGHT SINGLE QUOTATION MARK}{secret}"):
        for reach in (Memory, Client):
            with pytest.raises(ClientError, match="character that no key has") as refused:
                reach(node.url, key=key)
            assert secret not in str(refused.value)
        with pytest.raises(ReplicaError, match="replica_key: the API key has a character"):
            source_of(node.url, key)


class SlowEraser(BaseHTTPRequestHandler):
    """A node that answers an erasure when it is done, and sends other requests elsewhere."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(3 * IMPATIENT.silence_seconds)
        body = b'{"erasure_id": "e", "facts": 7, "status": "clean", "receipt": null}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(308)
        self.send_header("Location", "https://memory.example/v1/facts")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


IMPATIENT = AnswerLimits(silence_seconds=0.2, whole_seconds=0.2)


def test_slow_erasures_are_awaited_and_redirects_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LIMITS", IMPATIENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowEraser) as node:
        threading.Thread(target=node.serve_forever, daemon=True).start()
        with Memory(f"http://127.0.0.1:{node.server_port}") as memory:
            assert memory.forget(user="ann").facts == 7
            with pytest.raises(ClientError, match="too slowly"):
                memory.recall("tea?")
            with pytest.raises(ClientError, match="redirects: give the URL"):
                memory.facts()
        node.shutdown()


class OtherService(SlowEraser):
    """Answers every GET with JSON that no node sends."""

    answer: bytes

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)


@pytest.mark.parametrize("answer", [b'{"hello": "world"}', b"[1]", b'"pong"', b"null"])
def test_another_services_answer_names_its_url(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OtherService, "answer", answer, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherService) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_port}"
        with Memory(url) as memory:
            for verb in (memory.facts, lambda: memory.card("user:ann")):
                with pytest.raises(ClientError, match=f"^{url}/v1/.* did not answer as a node: "):
                    verb()
        assert main(["show", "--url", url, "user:ann"]) == 1
        service.shutdown()
    assert f"{url}/v1/facts did not answer as a node: " in capsys.readouterr().err


FORGOTTEN = """
import gc, sys, time
from engramlog import Memory
for _ in range(3):
    assert list(Memory(sys.argv[1]).facts()) == []
gc.collect()
time.sleep(0.1)
"""


def test_a_memory_that_nobody_closed_ends_in_silence(tmp_path: Path) -> None:
    with serving(tmp_path / "memory", "--no-auth") as node:
        done = subprocess.run(
            [sys.executable, "-c", FORGOTTEN, node.url],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


PROGRAM = """
from engramlog import Memory
memory = Memory("memory")
memory.remember("Alice moved to Graz", user="alice")
print(memory.recall("where does Alice live?", user="alice"))
"""


def test_a_program_may_end_without_closing_anything(tmp_path: Path) -> None:
    """The log has the counts, and the program prints only its own output."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Alice moved to Graz" in done.stdout
    node = Node.open(tmp_path / "memory")
    try:
        kinds = [event.header.kind for event in node.log.read()]
    finally:
        node.close()
    assert "recall_served" in kinds
