"""The work of an import, counted."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.api.transfer.importing import Importer, Options
from engramlog.api.transfer.lines import facts
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.kinds import FactAsserted


def test_a_line_that_may_be_known_is_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    with_cid = facts.with_cid

    def counted(fact: FactAsserted) -> FactAsserted:
        hashed.append(fact.value.v)
        return with_cid(fact)

    monkeypatch.setattr(facts, "with_cid", counted)
    turns = [{"entity": "user:a", "relation": "memory:said", "source": "chat:one",
              "value": {"type": "text", "v": text}} for text in ("yes", "no", "why")]  # fmt: skip
    with closing(Node.open(tmp_path / "data")) as node:
        importer = Importer(NodeSink(node, 262_144), Options(known="count"), decode_line)
        report = importer.run(iter([json.dumps(turn).encode() for turn in turns]))
    assert report.counts == {"asserted": 3}
    assert hashed == ["yes", "no", "why"]
