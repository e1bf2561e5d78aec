"""The one rule of who may state instructions.

Facts with ``interpret_as: instruction`` reach a model in their own channel, as orders.
Its writer, a caller, an import or a peer, must hold ``instruction:write``; every way
into the log asks here. A value that may not instruct is refused where a caller states it
again, and is taken as plain content where it is already in a foreign log.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from engramlog.eventlog.kinds import Value
from engramlog.projections.writing.commands import Refused

INSTRUCTION_PERMISSION = "instruction:write"


def instruction_refusal(value: Value, permissions: Set[str]) -> Refused | None:
    """Why a value may not be stated with these permissions; None if it may."""
    if value.interpret_as != "instruction" or INSTRUCTION_PERMISSION in permissions:
        return None
    return Refused(
        "instruction_write_required",
        "interpret_as 'instruction' requires the instruction:write permission",
        "value.interpret_as",
    )


def as_content(value: Value) -> Value:
    """The same value as content, not as an instruction."""
    return msgspec.structs.replace(value, interpret_as="content")
