"""Quotas of keys: 429 with the time to wait, over HTTP, and the bucket's own arithmetic."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.http.errors import ApiError
from engramlog.api.http.state.quotas import Quotas
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

Serve = Callable[..., LiveNode]


def test_excess_writes_are_refused_and_reads_continue(serve: Serve) -> None:
    node = serve(auth_required=True, quota_writes_per_hour=3)
    key = node.mint("read", "write", entity="agent:busy")
    for n in range(3):
        assert node.call("POST", "/v1/facts", key=key, json=fact(v=str(n))).status_code == 201
    refused = node.call("POST", "/v1/facts", key=key, json=fact(v="3"))
    assert refused.status_code == 429
    wait = int(refused.headers["Retry-After"])
    assert 1190 <= wait <= 1200  # a third of an hour for one token, minus the time passed
    body = refused.json()
    assert body.pop("detail")["code"] == "quota_exceeded"
    assert body == {
        "error": "quota_exceeded",
        "dimension": "fact_write",
        "principal": "agent:busy",
        "retry_after": wait,
    }
    listed = node.call("GET", "/v1/facts", key=key, params={"include_contradicted": "true"})
    assert (listed.status_code, listed.json()["total"]) == (200, 3)


def test_the_quota_counts_the_entity_not_the_key(serve: Serve) -> None:
    node = serve(auth_required=True, quota_reads_per_hour=2)
    first, second = (
        node.mint("read", entity="agent:a"),
        node.mint("read", "write", entity="agent:a"),
    )
    other = node.mint("read", entity="agent:b")
    assert node.call("GET", "/v1/me", key=first).status_code == 200
    assert node.call("POST", "/v1/recall", key=second, json={"query": "x"}).status_code == 200
    refused = node.call("GET", "/v1/facts", key=first)
    assert (refused.status_code, refused.json()["dimension"]) == (429, "fact_read")
    assert node.call("GET", "/v1/facts", key=second).status_code == 429
    assert node.call("POST", "/v1/facts", key=second, json=fact()).status_code == 201
    assert node.call("GET", "/v1/facts", key=other).status_code == 200


def test_a_batch_costs_each_of_its_items(serve: Serve) -> None:
    node = serve(auth_required=True, quota_writes_per_hour=10)
    key = node.mint("read", "write")
    items = [{"op": "assert", **fact(v=str(n))} for n in range(20)]
    batch = node.call("POST", "/v1/facts/batch", key=key, json=items)
    assert batch.status_code == 200
    assert len(batch.json()["results"]) == 20
    refused = node.call("POST", "/v1/facts", key=key, json=fact(v="x"))
    assert refused.status_code == 429
    # Ten tokens less twenty: eleven are missing, six minutes each.
    assert 3955 <= int(refused.headers["Retry-After"]) <= 3960


def test_callers_without_a_quota(serve: Serve) -> None:
    node = serve(auth_required=False, quota_reads_per_hour=1, quota_writes_per_hour=1)
    for key in (None, CONTROL_TOKEN):
        for _ in range(3):
            assert node.call("GET", "/v1/facts", key=key).status_code == 200
    key = node.mint("read")
    for _ in range(3):
        assert node.call("GET", "/healthz", key=key).status_code == 200
    assert node.call("GET", "/v1/me", key=key).status_code == 200
    assert node.call("GET", "/v1/me", key=key).status_code == 429


def test_by_default_there_is_no_quota(serve: Serve) -> None:
    node = serve(auth_required=True)
    key = node.mint("read")
    for _ in range(50):
        assert node.call("GET", "/v1/me", key=key).status_code == 200


@given(st.integers(1, 50), st.lists(st.floats(0, 900, allow_nan=False), max_size=80))
def test_never_more_than_the_burst_and_the_refill(rate: int, pauses: list[float]) -> None:
    """For any spacing of requests: passed ≤ rate + rate · hours, and waiting as told succeeds."""
    now = [1000.0]
    quotas, passed = Quotas(writes=rate, now_s=lambda: now[0]), 0
    for pause in pauses:
        now[0] += pause
        try:
            quotas.take("agent:x", "write")
            passed += 1
        except ApiError as refused:
            now[0] += int(refused.headers["Retry-After"])
            quotas.take("agent:x", "write")
            passed += 1
        assert passed <= rate + rate * (now[0] - 1000.0) / 3600 + 1e-6


def test_tokens_come_back_evenly() -> None:
    now = [0.0]
    quotas = Quotas(reads=60, now_s=lambda: now[0])
    for _ in range(60):
        quotas.take("agent:x", "read")
    now[0] = 59.0
    with pytest.raises(ApiError):
        quotas.take("agent:x", "read")
    now[0] = 60.0  # 60 an hour is one a minute
    quotas.take("agent:x", "read")
    with pytest.raises(ApiError):
        quotas.take("agent:x", "read")
