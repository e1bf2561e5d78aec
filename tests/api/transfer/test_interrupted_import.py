"""Ctrl-C during an import: the message says what the log holds."""

import _thread
import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.api.transfer.importing import Importer, Options, Result
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
