"""A tombstone hides its entity everywhere: every route answers the same bytes whether or not the
entity ever had facts."""

import re
import tempfile
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.worlds.buried_worlds import ALL_OF_IT, BURIED, reads_afterwards, two_graves
from tests.worlds.live import CONTROL_TOKEN
from tests.worlds.private_questions import STATEMENTS, Ask, answers, declared, reads, same
from tests.worlds.private_steps import ENTITIES, OUTSIDER, SCOPE, VALUES, Step, steps
from tests.worlds.private_worlds import Life

KINDS = ("fact", "fact", "fact", "retract", "resolve", "recall", "episode", "delta", "delta")


def is_public(step: Step) -> bool:
    """Public steps do not mention the entity; only private steps do."""
    value = VALUES[step.value]
    clear = ENTITIES[step.entity] != BURIED and value.v != BURIED
    return clear and step.kind in ("fact", "retract", "recall", "sweep")


def private(step: Step, kind: str) -> Step:
    return msgspec.structs.replace(step, private=True, kind=kind)


public_steps = steps.map(lambda s: msgspec.structs.replace(s, private=False)).filter(is_public)
private_steps = st.builds(private, steps, st.sampled_from(KINDS))
histories = st.lists(st.one_of(public_steps, private_steps), min_size=4, max_size=18)


@given(histories)
@settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example costs seconds
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
def test_a_hidden_entity_leaves_no_trace_on_any_route(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as path, two_graves(Path(path), history) as (told, untold):
        note(f"{len(told.open)} shown, {len(told.hidden)} hidden")
        for ask in reads_afterwards(told):
            same(told, untold, ask)


def test_everything_about_a_hidden_entity_leaves_no_trace(tmp_path: Path) -> None:
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        assert len(told.hidden) >= 6
        assert len(told.node.reader.pin().hiding.names) == 1
        for ask in reads_afterwards(told):
            same(told, untold, ask)
        events = "SELECT * EXCLUDE (hash) FROM events ORDER BY position"
        for sql in (events, *STATEMENTS[1:]):
            same(told, untold, Ask("POST", "/v1/time-travel/sql", body={"sql": sql}))
        for name, _ in told.hidden:
            again = Ask("POST", f"/v1/facts/{name}/retract", body={})
            same(told, untold, again)
        for row in _copies(told):
            other = {"type": "string", "v": "not that"}
            for body in (row, {**row, "value": other}):
                one, two = (_written(life, body) for life in (told, untold))
                assert one == two, body


def test_the_owner_of_every_right_does_not_see_it_either(tmp_path: Path) -> None:
    """Except in notices, and in fields that only reveal that something is hidden."""
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        told.key, untold.key = told.admin_key, untold.admin_key
        skipped = ("/v1/auth", "/v1/admin/audit", "/v1/time-travel/sql", "/v1/recall", "/v1/facts")
        for ask in reads_afterwards(told):
            if ask.path == "/v1/export" and ask.params:  # trust is the other world's silence
                assert declared(told, ask) == declared(untold, ask)
            elif not ask.path.startswith(skipped):
                same(told, untold, ask)


def test_the_worlds_differ_after_the_tombstone_is_revoked(tmp_path: Path) -> None:
    with two_graves(tmp_path, ALL_OF_IT) as (told, untold):
        for life in (told, untold):
            stones = life.live.call("GET", "/v1/tombstones", key=CONTROL_TOKEN).json()
            path = f"/v1/tombstones/{stones['tombstones'][0]['id']}/revoke"
            ended = life.live.call("POST", path, key=CONTROL_TOKEN, json={"reason": "seen"})
            assert ended.status_code == 200
        different = [ask for ask in reads(told) if answers(told, ask) != answers(untold, ask)]
        paths = {ask.path.split("/")[2] for ask in different if ask.path.startswith("/v1/")}
        assert paths >= {
            "facts", "recall", "conflicts", "graph", "cards", "lint", "scopes", "time-travel",
            "audit", "episodes", "deltas",
        }  # fmt: skip


def _written(life: Life, body: dict[str, object]) -> tuple[int, str]:
    """The answer to a write, without its place in the log: counts of recalls are recorded in
    between, at their own times. The timestamp shows whether the fact existed before."""
    status, _, text = answers(life, Ask("POST", "/v1/facts", body=body))
    return status, re.sub(r'"(id|hlc|position)":("[^"]*"|[0-9]+)', r'"\1":""', text)


def _copies(life: Life) -> list[dict[str, object]]:
    """Assertions with the content of hidden facts."""
    view = life.node.reader.pin()
    hidden = view.hidden()
    assert hidden is not None
    slots = np.flatnonzero(hidden)
    rows = life.node.reader.rows(view.from_position[slots].tolist())
    return [
        {
            "entity": row.entity,
            "relation": row.relation,
            "source": row.source,
            "scope": SCOPE,
            "value": {"type": row.value_type, "v": row.value_v},
        }
        for row in rows
        if row.source in (OUTSIDER, "agent:one") and row.value_type != "number"
    ]
