"""A running node answers every request as its OpenAPI document says."""

from collections.abc import Generator
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from requests import Session
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.errors import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.worlds.processes import NodeProcess, fact, serving

SEED = 13
EXAMPLES = 2
"""Requests a route, as many well-formed as ill-formed."""
ANSWER_SECONDS_MAX = 60.0
CONFORMING = [status_code_conformance, content_type_conformance, response_schema_conformance]
NOT_SERVED = "POST /v1/auth/oidc/exchange"
"""Answers 503, in the protocol's words."""
REQUEST_LINE_MAX = 8000
"""Longer ones are refused before routing."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    data = tmp_path_factory.mktemp("described") / "data"
    with serving(data, env={"STIGMEM_AUTH_REQUIRED": "true"}) as running:
        client = running.client(running.control.token)
        for number in range(3):
            client.post("/v1/facts", fact(number))
        yield running


def failures_of(operation: APIOperation, session: Session, mode: GenerationMode) -> list[str]:
    """The faults in the answers to a few requests."""
    found: list[str] = []
    checks = CONFORMING if operation.label == NOT_SERVED else [not_a_server_error, *CONFORMING]

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        # The key again for each case: an ill-formed one may leave it out.
        headers = {"Authorization": str(session.headers["Authorization"])}
        answer = case.call(session=session, headers=headers, timeout=ANSWER_SECONDS_MAX)
        if len(str(answer.request.url)) < REQUEST_LINE_MAX:
            try:
                case.validate_response(answer, checks=checks)
            except FailureGroup as fault:
                found.append(str(fault))

    with suppress(Unsatisfiable):  # a request without parts cannot be ill-formed
        ask()
    return found


def test_every_answer_is_one_that_the_document_describes(node: NodeProcess) -> None:
    schema = schemathesis.openapi.from_url(f"{node.url}/openapi.json")
    found: list[str] = []
    with Session() as session:
        session.headers["Authorization"] = f"Bearer {node.control.token}"
        for each in schema.get_all_operations():
            assert isinstance(each, Ok), each.err()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                found += failures_of(each.ok(), session, mode)
    assert not found, "\n".join(found)
