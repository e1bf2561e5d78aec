"""``engramlog capability``: from the first token to its end, with and without a node."""

import json
import subprocess
from pathlib import Path

import pytest

from engramlog.api.client.client import ClientError
from tests.worlds.processes import engramlog, fact, serving


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_token_is_issued_narrowed_used_and_revoked(tmp_path: Path) -> None:
    data = tmp_path / "memory"
    with serving(data) as node:
        token = printed(
            engramlog(
                "capability",
                "issue",
                "--subject",
                "agent:crawler",
                "--verb",
                "read",
                "--verb",
                "write",
                "--scope",
                "company",
                "--ttl",
                "600",
                "--data",
                data,
            )
        )
        holder = node.client(token)
        for n in (1, 12):
            holder.post("/v1/facts", fact(n, source="agent:crawler"))
        lesser = printed(
            engramlog(
                "capability",
                "narrow",
                "-",
                "--verb",
                "read",
                "--entity",
                "stigmem://test.example/thing/1",
                stdin=token.encode() + b"\n",
            )
        )
        reader = node.client(lesser)
        found = reader.get("/v1/facts")["facts"]
        assert [record["entity"] for record in found] == ["stigmem://test.example/thing/1"]
        with pytest.raises(ClientError) as refused:
            reader.post("/v1/facts", fact(1, source="agent:crawler"))
        assert refused.value.status == 403

        inspected = engramlog("capability", "inspect", "-", "--offline", stdin=lesser.encode())
        claims = json.loads(printed(inspected))
        assert (claims["valid"], claims["verbs"], claims["blocks"]) == (True, ["read"], 1)
        assert claims["entities"] == ["stigmem://test.example/thing/1"]
        broken = engramlog("capability", "inspect", lesser[:-5] + "AAAAA", "--offline")
        assert broken.returncode == 1
        assert json.loads(broken.stdout)["valid"] is False

        rows = json.loads(printed(engramlog("capability", "list", "--data", data, "--json")))
        assert [row["status"] for row in rows] == ["active"]
        token_id = rows[0]["token_id"]
        printed(engramlog("capability", "revoke", token_id, "--token", lesser, "--data", data))
        with pytest.raises(ClientError) as ended:
            reader.get("/v1/facts")
        assert ended.value.code == "token_revoked"
        assert holder.get("/v1/facts")["facts"]
        printed(engramlog("capability", "revoke", token_id, "--data", data))
        with pytest.raises(ClientError):
            holder.get("/v1/facts")
        told = engramlog("capability", "inspect", token, "--data", data)
        assert told.returncode == 1
        assert json.loads(told.stdout)["reason"] == "token_revoked"


def test_impossible_requests_get_a_line_of_explanation(tmp_path: Path) -> None:
    for args, words in (
        (("narrow", "nonsense"), "begins with"),
        (("narrow", "stigcap1.AAAA"), "cannot be read"),
        (("revoke", "no-such", "--data", tmp_path / "d"), "does not exist"),
    ):
        done = engramlog("capability", *args)
        assert done.returncode == 1
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
