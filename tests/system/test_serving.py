"""A node as a process: it says when it is ready, stops politely, and keeps others out."""

import json
import os
import socket
import stat
import threading
import time
from pathlib import Path

import httpx
import pytest

from engramlog.api.client.client import ClientError
from tests.worlds.processes import NodeProcess, engramlog, fact, serving

KEY = "k" * 40


def test_it_prints_one_line_when_it_is_ready(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        assert node.ready_line == (
            f"engramlog serving {node.url} (data {tmp_path / 'data'}, position 1)"
        )
        assert node.client().get("/healthz") == {"status": "ok"}


def test_sigterm_stops_it_with_exit_code_0(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--no-auth").wait_ready()
    node.client().post("/v1/facts", fact(1))
    assert node.stop() == 0
    assert not (tmp_path / "data" / "control.json").exists()


def test_a_stop_waits_for_the_current_request(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        bodies = [fact(n) for n in range(5_000)]
        client = node.client()
        answers: list[object] = []
        thread = threading.Thread(
            target=lambda: answers.append(client.post("/v1/facts/batch", bodies))
        )
        thread.start()
        time.sleep(0.15)
        assert node.stop() == 0
        thread.join(30)
    assert len(answers) == 1
    assert len(answers[0]["results"]) == 5_000  # pyright: ignore[reportIndexIssue]


def test_writes_survive_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        written = node.client().post("/v1/facts", fact(1))
    with serving(tmp_path / "data", "--no-auth") as node:
        assert node.client().get(f"/v1/facts/{written['id']}")["cid"] == written["cid"]


def test_a_second_process_is_refused_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        second = engramlog("serve", "--data", tmp_path / "data", "--port", "0")
        assert second.returncode == 1
        assert second.stderr == (
            f"engramlog: {tmp_path / 'data'} is in use by the process with pid {node.process.pid}\n"
        )


def test_the_control_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node:
        mode = stat.S_IMODE((tmp_path / "data" / "control.json").stat().st_mode)
        assert mode == 0o600
        assert node.control.pid == node.process.pid
        assert node.control.url == node.url


def test_control_routes_look_absent_without_the_token(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        with pytest.raises(ClientError) as refused:
            node.client().get("/v1/control/status")
        assert refused.value.status == 404
        assert node.client(node.control.token).get("/v1/control/status")["position"] == 1


def test_without_authentication_it_listens_on_loopback_only(tmp_path: Path) -> None:
    done = engramlog("serve", "--data", tmp_path / "data", "--host", "0.0.0.0", "--no-auth")
    assert done.returncode == 1
    assert "refusing to listen on 0.0.0.0 without authentication" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_named_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = engramlog("serve", "--data", tmp_path / "data", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr


@pytest.mark.parametrize("command", [("demo",), ("mcp", "--transport", "http"), ("serve",)])
def test_a_number_that_is_no_port_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    done = engramlog(*command, "--data", tmp_path / "data", "--port", "99999")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--port: must be" in done.stderr


def test_an_address_that_is_not_here_is_not_a_question_of_the_port(tmp_path: Path) -> None:
    done = engramlog("serve", "--data", tmp_path / "data", "--host", "256.1.1.1", "--port", "0")
    assert done.returncode == 1
    assert "cannot listen on 256.1.1.1" in done.stderr
    assert "choose another with --host" in done.stderr


def test_a_profile_that_does_not_exist_stops_the_start(tmp_path: Path) -> None:
    env = {"STIGMEM_RECALL_PROFILE": "nope"}
    done = engramlog("serve", "--data", tmp_path / "data", "--port", "0", env=env)
    assert done.returncode == 1
    assert "recall_profile: no recall profile 'nope'; there are abmind" in done.stderr


@pytest.mark.parametrize(
    ("place", "why"), [("file", "it is a file"), ("file/below", "Not a directory")]
)
def test_a_file_is_no_data_directory(tmp_path: Path, place: str, why: str) -> None:
    (tmp_path / "file").write_text("mine")
    done = engramlog("serve", "--data", tmp_path / place, "--port", "0")
    assert done.returncode == 1
    assert f"cannot make {tmp_path / place}: {why}" in done.stderr


def test_keys_are_required_by_default(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created = engramlog(
        "key", "create", "--data", data, "--entity-uri", "agent:ann", "--raw-key", "-",
        stdin=KEY.encode() + b"\n",
    )  # fmt: skip
    assert created.returncode == 0, created.stderr
    assert KEY not in created.stdout + created.stderr
    with serving(data) as node:
        with pytest.raises(ClientError) as refused:
            node.client().get("/v1/facts")
        assert refused.value.status == 401
        assert node.client(KEY).get("/v1/facts")["total"] == 0


def test_the_request_log_is_json_without_queries(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth", "--access-log") as node:
        node.client().get("/v1/facts", {"entity": "user:secret-name"})
    lines = [json.loads(line) for line in node.errors().splitlines()]
    served = [line for line in lines if line["logger"] == "engramlog.access"]
    assert served[0]["path"] == "/v1/facts"
    assert served[0]["status"] == 200
    assert "secret-name" not in node.errors()


def test_settings_come_from_flags_then_environment_then_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "engramlog.toml").write_text(
        'node_url = "http://file.example"\nauth_required = false\nrecall_profile = "stigmem"\n'
    )
    variables = {"STIGMEM_NODE_URL": "http://env.example", "STIGMEM_AUTH_REQUIRD": "x"}
    with serving(data, env=variables) as node:
        known = node.client().get("/.well-known/stigmem")
        assert (known["node_url"], known["auth"]) == ("http://env.example", "none")
        assert "did you mean STIGMEM_AUTH_REQUIRED?" in node.errors()
    with serving(data, "--node-url", "http://flag.example", env=variables) as node:
        assert node.client().get("/.well-known/stigmem")["node_url"] == "http://flag.example"


def test_the_process_leaves_no_children_and_no_lock(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--no-auth").wait_ready()
    pid = node.process.pid
    node.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with serving(tmp_path / "data", "--no-auth") as again:
        assert again.control.pid != pid


def test_malformed_http_is_refused_in_a_line_and_logs_no_failure(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--no-auth") as node:
        coded = httpx.post(
            f"{node.url}/v1/facts",
            content=b"{}",
            headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
        )
        assert (coded.status_code, coded.json()["detail"]["code"]) == (400, "malformed_body")
        long = httpx.get(f"{node.url}/v1/facts", headers={"X-Long": "y" * 20_000})
        assert (long.status_code, long.json()["detail"]["code"]) == (431, "header_too_large")
        host, port = node.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as garbled:
            garbled.sendall(b"GARBAGE\r\n\r\n")
            assert garbled.recv(20).startswith(b"HTTP/1.0 400")
        assert httpx.get(f"{node.url}/v1/facts").status_code == 200
        node.stop()
        assert '"error"' not in node.errors()
        assert "Traceback" not in node.errors()
