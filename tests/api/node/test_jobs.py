"""Sweeps and lint over many facts are jobs: accepted, worked off, fetched by who started them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from engramlog.api.http.errors import ApiError
from engramlog.api.node.tasks.jobs import KEPT_S, Job, RequestJobs
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.samples import erased, open_log
from tests.worlds.waiting import until

Serve = Callable[..., LiveNode]


def finished(node: LiveNode, path: str, key: str | None = None) -> dict[str, Any]:
    def job() -> dict[str, Any]:
        answer = node.call("GET", path, key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    until(lambda: job()["status"] in ("done", "error"))
    return job()


def test_a_sweep_over_many_facts_is_a_job(serve: Serve) -> None:
    node = serve(job_facts_min=2)
    facts = [node.state(entity=f"user:{n}") for n in range(3)]
    dry = node.call("POST", "/v1/decay/sweep", params={"dry_run": "true", "ttl_seconds": 0})
    assert dry.status_code == 202
    accepted = dry.json()
    assert (accepted["status"], accepted["estimated_s"]) == ("pending", 1)
    done = finished(node, f"/v1/decay/jobs/{accepted['job_id']}")
    assert done == {
        "job_id": accepted["job_id"],
        "status": "done",
        "result": {"scanned": 3, "decayed": 0, "dry_run": True, "would_decay": 3},
    }
    swept = node.call("POST", "/v1/decay/sweep", params={"ttl_seconds": 0}).json()
    assert finished(node, f"/v1/decay/jobs/{swept['job_id']}")["result"]["decayed"] == 3
    assert node.call("GET", "/v1/facts").json()["total"] == 0
    assert len(facts) == 3


@pytest.mark.parametrize("how", ["erasures", "tombstones"])
def test_a_result_goes_once_its_facts_are_taken_away(serve: Serve, how: str) -> None:
    node = serve(job_facts_min=0)
    secret = node.state(entity="user:a", v="a secret")
    node.state(entity="user:a", v="another")
    ask = {"scope": "company", "checks": ["contradiction"]}
    path = f"/v1/lint/jobs/{node.call('POST', '/v1/lint', json=ask).json()['job_id']}"
    assert "a secret" in str(finished(node, path))
    body = {"fact_ids": [secret["id"]]} if how == "erasures" else {"entity_uri": "user:a"}
    assert node.call("POST", f"/v1/{how}", json=body, key=CONTROL_TOKEN).status_code < 300
    assert node.call("GET", path).status_code == 404


def test_a_result_goes_once_one_of_its_facts_is_confidential(serve: Serve) -> None:
    node = serve(auth_required=True, job_facts_min=0)
    owner, other = node.key_of("owner"), node.key_of("other")
    said = {"key": owner, "source": "agent:owner", "scope": "team"}
    secret = node.state(v="a secret", **said)
    node.state(v="another", **said)
    ask = {"scope": "team", "checks": ["contradiction"]}
    job = node.call("POST", "/v1/lint", json=ask, key=other).json()["job_id"]
    assert "a secret" in str(finished(node, f"/v1/lint/jobs/{job}", other))
    path = f"/v1/facts/{secret['id']}/attributes"
    changed = node.call("PATCH", path, json={"classification": 2}, key=owner)
    assert changed.status_code == 200, changed.text
    assert node.call("GET", f"/v1/lint/jobs/{job}", key=other).status_code == 404


def test_a_result_for_a_key_that_reads_public_facts_alone_goes_with_the_class(serve: Serve) -> None:
    node = serve(auth_required=True, job_facts_min=0)
    owner = node.key_of("owner")
    public = {"key": owner, "source": "agent:owner", "scope": "team"}
    facts = [node.state(v=v, **public)["id"] for v in ("a secret", "another")]

    def classify(level: int) -> None:
        for fact in facts:
            path = f"/v1/facts/{fact}/attributes"
            done = node.call("PATCH", path, json={"classification": level}, key=CONTROL_TOKEN)
            assert done.status_code == 200, done.text

    classify(0)
    keys = [
        node.mint("read", entity=f"agent:x{level}", max_classification=level) for level in (0, 1)
    ]
    ask = {"scope": "team", "checks": ["contradiction"]}
    jobs = [node.call("POST", "/v1/lint", json=ask, key=key).json()["job_id"] for key in keys]
    for key, job in zip(keys, jobs, strict=True):
        assert "a secret" in str(finished(node, f"/v1/lint/jobs/{job}", key))
    classify(1)
    statuses = [
        node.call("GET", f"/v1/lint/jobs/{job}", key=key).status_code
        for key, job in zip(keys, jobs, strict=True)
    ]
    assert statuses == [404, 200]


def test_a_result_is_for_the_rights_that_began_it(serve: Serve) -> None:
    node = serve(auth_required=True, job_facts_min=0)
    ann = node.key_of("ann")
    garden = {"slug": "g", "name": "G", "scope": "company"}
    made = node.call("POST", "/v1/gardens", key=CONTROL_TOKEN, json=garden).json()["id"]
    member = {"entity_uri": "agent:ann", "role": "writer"}
    node.call("POST", f"/v1/gardens/{made}/members", key=CONTROL_TOKEN, json=member)
    for v in "12":
        node.state(key=ann, v=v, garden_id=made)
    ask = {"scope": "company", "checks": ["contradiction"]}
    job = node.call("POST", "/v1/lint", json=ask, key=ann).json()["job_id"]
    assert finished(node, f"/v1/lint/jobs/{job}", ann)["result"]["findings"]
    node.call("DELETE", f"/v1/gardens/{made}/members/agent:ann", key=CONTROL_TOKEN)
    assert node.call("GET", f"/v1/lint/jobs/{job}", key=ann).status_code == 404


def test_a_lint_over_many_facts_is_a_job_with_the_same_answer(serve: Serve) -> None:
    few, many = serve(job_facts_min=1000), serve(job_facts_min=0)
    for node in (few, many):
        node.state(entity="user:a", v="1")
        node.state(entity="user:a", v="2")
    ask = {"scope": "company", "checks": ["contradiction"], "colour": "red"}
    direct = few.call("POST", "/v1/lint", json=ask)
    assert direct.status_code == 200
    accepted = many.call("POST", "/v1/lint", json=ask)
    assert accepted.status_code == 202
    result = finished(many, f"/v1/lint/jobs/{accepted.json()['job_id']}")["result"]
    for answer in (result, expected := direct.json()):
        answer.pop("checked_at")
        for finding in answer["findings"]:
            assert len(finding.pop("fact_ids")) == 2
    assert result == expected
    assert result["warnings"] == ["unknown field 'colour' is ignored"]


def test_bad_requests_are_refused_at_once(serve: Serve) -> None:
    node = serve(job_facts_min=0)
    node.state()
    assert node.call("POST", "/v1/lint", json={"scope": "moon"}).status_code == 400
    assert node.call("POST", "/v1/decay/sweep", json={"scope": "moon"}).status_code == 400


def test_a_job_is_its_credentials(serve: Serve) -> None:
    node = serve(auth_required=True, job_facts_min=0)
    key = node.mint("read", "write", entity="agent:a")
    narrow = node.mint("read", entity="agent:a", scopes=["local"])
    other = node.mint("read", entity="agent:b")
    node.state(key=key)
    job = node.call("POST", "/v1/lint", key=key, json={"scope": "company"}).json()["job_id"]
    assert finished(node, f"/v1/lint/jobs/{job}", key)["status"] == "done"
    for who, path in (
        (narrow, f"/v1/lint/jobs/{job}"),
        (other, f"/v1/lint/jobs/{job}"),
        (key, f"/v1/decay/jobs/{job}"),
        (key, "/v1/lint/jobs/none"),
    ):
        missing = node.call("GET", path, key=who)
        assert (missing.status_code, missing.json()) == (404, {"detail": "job not found"})


def test_whether_it_is_a_job_tells_nothing_of_hidden_facts(serve: Serve) -> None:
    node = serve(auth_required=True, job_facts_min=1)
    member, other = node.key_of("member"), node.key_of("other")
    node.call("POST", "/v1/gardens", key=member, json={"slug": "ops", "name": "Ops"})
    for n in range(3):
        node.state(key=member, garden_id="ops", source="agent:member", v=str(n))
    assert node.call("POST", "/v1/lint", key=other, json={"scope": "company"}).status_code == 200
    assert node.call("POST", "/v1/lint", key=member, json={"scope": "company"}).status_code == 202


def test_rebuild_and_reindex_have_ids_too(live: LiveNode) -> None:
    from tests.worlds.live import CONTROL_TOKEN

    idle = live.call("GET", "/v1/admin/rebuild", key=CONTROL_TOKEN).json()
    assert (idle["job_id"], idle["status"]) == (None, "idle")
    started = live.call("POST", "/v1/admin/rebuild", key=CONTROL_TOKEN).json()
    assert finished(live, "/v1/admin/rebuild", CONTROL_TOKEN)["job_id"] == started["job_id"]


def test_jobs_wait_fail_and_expire() -> None:
    now = [0.0]

    async def story() -> None:
        jobs, gate, begun = RequestJobs(lambda: now[0]), asyncio.Event(), 0

        async def slow() -> int:
            nonlocal begun
            begun += 1
            await gate.wait()
            return begun

        async def refused() -> None:
            raise ApiError(400, {"code": "x", "message": "not so"})

        async def broken() -> None:
            raise RuntimeError("a secret of ours")

        started = [jobs.begin("lint", b"me", "agent:me", slow) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert [job.status for job in started] == ["running", "running", "pending"]
        gate.set()
        failed, fell = (
            jobs.begin("lint", b"me", "agent:me", refused),
            jobs.begin("lint", b"me", "agent:me", broken),
        )
        await asyncio.sleep(0.01)
        assert [job.status for job in started] == ["done"] * 3
        assert to_builtins(failed.record()) == {
            "job_id": failed.job_id,
            "status": "error",
            "error": "not so",
        }
        assert fell.status == "error"
        assert "secret" not in str(fell.record())
        name = str(failed.job_id)
        assert jobs.get(name, "lint", b"me") is failed
        with pytest.raises(ApiError, match="job"):
            jobs.get(name, "lint", b"you")
        now[0] = KEPT_S + 1
        with pytest.raises(ApiError, match="job"):
            jobs.get(name, "lint", b"me")
        waiting = jobs.begin("lint", b"me", "agent:me", asyncio.Event().wait)
        await asyncio.sleep(0)
        await jobs.stop()
        assert waiting.status in ("pending", "running")

    asyncio.run(story())


def test_the_number_of_waiting_jobs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.jobs.JOBS_MAX", 2)

    async def story() -> None:
        jobs = RequestJobs()
        for _ in range(2):
            jobs.begin("lint", b"me", "agent:me", asyncio.Event().wait)
        with pytest.raises(ApiError) as refused:
            jobs.begin("lint", b"me", "agent:me", asyncio.Event().wait)
        assert refused.value.status == 503
        await jobs.stop()

    asyncio.run(story())


def test_a_caller_delays_others_by_eight_jobs_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.jobs.KEPT_EACH_MAX", 3)

    async def nothing() -> None: ...

    async def story() -> None:
        jobs = RequestJobs()
        other = jobs.begin("lint", b"other", "agent:other", nothing)
        ended: list[Job] = []
        for _ in range(4):
            ended.append(jobs.begin("lint", b"me", "agent:me", nothing))
            await asyncio.sleep(0.01)
        for _ in range(8):
            jobs.begin("lint", b"me", "agent:me", asyncio.Event().wait)
        with pytest.raises(ApiError) as refused:
            jobs.begin("lint", b"me", "agent:me", nothing)
        assert refused.value.status == 503
        jobs.begin("lint", b"other", "agent:other", nothing)
        with pytest.raises(ApiError):
            jobs.get(str(ended[0].job_id), "lint", b"me")
        assert jobs.get(str(ended[3].job_id), "lint", b"me").status == "done"
        assert jobs.get(str(other.job_id), "lint", b"other").status == "done"
        await jobs.stop()

    asyncio.run(story())


def test_waiting_jobs_count_although_facts_were_erased_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.jobs.WAITING_EACH_MAX", 1)

    async def story() -> None:
        jobs, gate = RequestJobs(), asyncio.Event()
        waiting = jobs.begin("lint", b"me", "agent:me", gate.wait)
        with open_log(tmp_path / "log.db") as log:
            jobs.committed(log.append([erased()]).events)
        with pytest.raises(ApiError) as refused:
            jobs.begin("lint", b"me", "agent:me", gate.wait)
        assert refused.value.status == 503
        gate.set()
        await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match="job"):
            jobs.get(str(waiting.job_id), "lint", b"me")

    asyncio.run(story())
