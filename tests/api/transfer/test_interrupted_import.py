"""An import that ends early: the message says what the log holds."""

import _thread
import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engramlog.api.client.client import ClientError
from engramlog.api.node.node import Node
from engramlog.api.transfer.importing import Importer, ImportStopped, Options, Result
from engramlog.api.transfer.lines.line_kinds import AnyLine, decode_line
from engramlog.api.transfer.sinks import NodeSink

WRITTEN_AFTER_SECONDS = 0.1
"""From Ctrl-C to the end of the batch: the main thread is in its handler by then."""


class PressedMeanwhile(NodeSink):
    """Ctrl-C is pressed while the second batch is on its way into the log."""

    batches = 0

    def write(
        self, lines: Sequence[AnyLine], *, received_at: Sequence[int] | None, atomic: bool
    ) -> list[Result]:
        self.batches += 1
        if self.batches == 2:
            _thread.interrupt_main()
            time.sleep(WRITTEN_AFTER_SECONDS)
        return super().write(lines, received_at=received_at, atomic=atomic)


def test_the_batch_that_is_being_written_counts_as_written(tmp_path: Path) -> None:
    told = [{"entity": "user:a", "relation": f"memory:n{n}", "value": {"type": "number", "v": n},
             "source": "agent:t"} for n in range(4)]  # fmt: skip
    with closing(Node.open(tmp_path / "data")) as node:
        importer = Importer(PressedMeanwhile(node, 262_144), Options(batch_lines=2), decode_line)
        with pytest.raises(KeyboardInterrupt, match=r"lines 1 to 4 are in the log") as pressed:
            importer.run(iter([json.dumps(each).encode() for each in told]))
        assert f"(position {node.log.head().position})" in str(pressed.value)


class GoneMeanwhile(NodeSink):
    """The destination no longer answers when it is asked for an earlier fact."""

    def find(self, cid: str, back: int = 1) -> str | None:
        raise ClientError("no answer")


@pytest.mark.parametrize(("batch_lines", "done"), [(1, 2), (1000, 1)])
def test_a_destination_that_goes_away_when_asked_says_how_to_continue(
    tmp_path: Path, batch_lines: int, done: int
) -> None:
    told = [{"key": key, "entity": "user:a", "relation": "memory:n", "source": "agent:t",
             "value": {"type": "string", "v": key}} for key in ("old", "new")]  # fmt: skip
    lines = [json.dumps(each).encode() for each in (*told, {"op": "retract", "target": "old"})]
    with closing(Node.open(tmp_path / "data")) as node:
        Importer(NodeSink(node, 262_144), Options(), decode_line).run(iter(lines[:1]))
        options = Options(skip=1, batch_lines=batch_lines)
        importer = Importer(GoneMeanwhile(node, 262_144), options, decode_line)
        with pytest.raises(ImportStopped, match=rf"no answer; .*continue with --skip {done}$"):
            importer.run(iter(lines))
        assert node.reader.pin().count == done
