"""Real nodes over one log in PostgreSQL: each shows every node's writes, exactly once."""

import threading
import urllib.request
from pathlib import Path

import psycopg

from tests.worlds.nodes_over_one_log import SERVER, ask, digests, identity_of, leads, node
from tests.worlds.postgres_servers import Server, wait_until
from tests.worlds.processes import NodeProcess, engramlog, fact


def facts_at(at: NodeProcess, position: int) -> list[str]:
    status, page, _ = ask(at, "GET", f"/v1/facts?limit=500&min_position={position}")
    assert status == 200
    return sorted(each["id"] for each in page["facts"])


def test_a_write_through_one_node_is_readable_through_another_at_its_position(
    tmp_path: Path, postgres_url: str
) -> None:
    with node(tmp_path / "a", postgres_url) as a:
        identity_of(tmp_path / "a", tmp_path / "b")
        with node(tmp_path / "b", postgres_url) as b:
            written: list[str] = []
            position = 0
            for number in range(20):
                at = (a, b)[number % 2]
                status, body, headers = ask(at, "POST", "/v1/facts", fact(number))
                assert status == 201, body
                written.append(body["id"])
                position = int(headers["X-Engramlog-Position"])
            assert facts_at(a, position) == facts_at(b, position) == sorted(written)
            status, body, headers = ask(
                b, "GET", "/v1/facts", None, X_Engramlog_Position=str(position + 1000)
            )
            assert (status, body["detail"]["code"]) == (503, "position_not_reached")
            assert headers["Retry-After"] == "1"
            with urllib.request.urlopen(a.url + "/metrics") as metrics:
                shown = metrics.read().decode()
            assert "engramlog_log_commits" in shown
            wait_until(lambda: leads(a) + leads(b) == 1, "one of the two leads")
            found = [digests(each) for each in (a, b)]
            assert found[0] == found[1]
    again = engramlog("replay", "verify", "--data", tmp_path / "b",
                      env={**SERVER, "STIGMEM_LOG": postgres_url})  # fmt: skip
    assert again.returncode == 0, again.stderr


def test_a_retried_request_is_one_event_at_any_node(tmp_path: Path, postgres_url: str) -> None:
    with node(tmp_path / "a", postgres_url) as a:
        identity_of(tmp_path / "a", tmp_path / "b")
        with node(tmp_path / "b", postgres_url) as b:
            answers: list[tuple[int, str]] = []

            def write(at: NodeProcess, number: int) -> None:
                status, body, _ = ask(
                    at, "POST", "/v1/facts", fact(number), Idempotency_Key=f"key-{number}"
                )
                answers.append((status, body["id"]))

            threads = [
                threading.Thread(target=write, args=(at, number))
                for number in range(12)
                for at in (a, b, a)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert {status for status, _ in answers} <= {200, 201}
            assert len({name for _, name in answers}) == 12
            position = int(ask(a, "GET", "/healthz")[2]["X-Engramlog-Position"])
            assert len(facts_at(b, position)) == 12


def test_one_node_continues_the_pages_of_another(tmp_path: Path, postgres_url: str) -> None:
    with node(tmp_path / "a", postgres_url) as a:
        identity_of(tmp_path / "a", tmp_path / "b")
        made = [ask(a, "POST", "/v1/facts", fact(number))[2] for number in range(5)]
        position = made[-1]["X-Engramlog-Position"]
        with node(tmp_path / "b", postgres_url) as b:
            _, first, _ = ask(a, "GET", "/v1/facts?limit=3")
            path = f"/v1/facts?limit=3&cursor={first['cursor']}&min_position={position}"
            status, second, _ = ask(b, "GET", path)
            assert status == 200
            ids = {each["id"] for page in (first, second) for each in page["facts"]}
            assert len(ids) == 5


def test_a_node_without_its_tables_makes_them_again_from_the_log(
    tmp_path: Path, postgres_url: str
) -> None:
    data = tmp_path / "a"
    with node(data, postgres_url) as a:
        written = sorted(ask(a, "POST", "/v1/facts", fact(n))[1]["id"] for n in range(5))
        a.kill()
    for file in data.glob("projections*"):
        file.unlink()
    with node(data, postgres_url) as a:
        assert facts_at(a, 0) == written


def test_a_directory_does_not_open_with_another_log(tmp_path: Path, postgres_url: str) -> None:
    data = tmp_path / "a"
    with node(data, postgres_url):
        pass
    without = engramlog("serve", "--data", data, "--port", "0")
    assert without.returncode == 1
    assert "name it with STIGMEM_LOG" in without.stderr
    own = tmp_path / "own"
    made = NodeProcess(own, "--no-auth").wait_ready()
    made.stop()
    beside = engramlog("serve", "--data", own, "--log", postgres_url, "--port", "0", env=SERVER)
    assert beside.returncode == 1
    assert "contains a log" in beside.stderr
    moved = engramlog("backup", tmp_path / "backup", "--data", data)
    assert moved.returncode == 1
    assert "backed up with its server" in moved.stderr


def test_a_node_that_demands_a_quorum_says_why_it_does_not_write(
    tmp_path: Path, postgres_url: str
) -> None:
    data = tmp_path / "a"
    with node(data, postgres_url) as a:
        assert ask(a, "POST", "/v1/facts", fact(1))[0] == 201
    with node(data, postgres_url, {"STIGMEM_LOG_DURABILITY": "quorum"}) as a:
        status, body, headers = ask(a, "POST", "/v1/facts", fact(2))
        assert (status, body["detail"]["code"]) == (503, "not_durable")
        assert headers["Retry-After"] == "1"
        status, body, _ = ask(a, "GET", "/readyz")
        assert status == 503
        assert "synchronous_standby_names is empty" in body["reason"]
        assert len(facts_at(a, 0)) == 1


def test_a_node_serves_without_the_server_and_writes_again_after(
    tmp_path: Path, postgres_url: str, postgres_server: Server
) -> None:
    with node(tmp_path / "a", postgres_url) as a:
        assert ask(a, "POST", "/v1/facts", fact(1))[0] == 201
        with psycopg.connect(postgres_server.url(), autocommit=True) as db:
            db.execute("ALTER ROLE node NOLOGIN")
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'"
            )
            try:
                status, body, _ = ask(a, "POST", "/v1/facts", fact(2))
                assert (status, body["detail"]["code"]) == (503, "storage_failed")
                wait_until(lambda: ask(a, "GET", "/readyz")[0] == 503, "the node says so")
                assert len(facts_at(a, 0)) == 1
            finally:
                db.execute("ALTER ROLE node LOGIN")
        assert ask(a, "POST", "/v1/facts", fact(2))[0] == 201
        wait_until(lambda: ask(a, "GET", "/readyz")[0] == 200, "the node is ready again")
