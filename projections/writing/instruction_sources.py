"""The one rule for who may state instructions.

Facts with ``interpret_as: instruction`` reach a model in a separate channel, as orders. Their
writer (caller, import or peer) must hold ``instruction:write``; every way into the log checks here.
Without it, a caller's write is refused, and a value that another log already holds is taken as
plain content.
"""

import msgspec

from engramlog.eventlog.kinds import Value
from engramlog.projections.authorization import Authorization
from engramlog.projections.writing.commands import CommandRefused, Refused

INSTRUCTION_PERMISSION = "instruction:write"

_REQUIRED = Refused(
    "instruction_write_required",
    "interpret_as 'instruction' requires the instruction:write permission",
    "value.interpret_as",
)


def check_instruction(value: Value, rights: Authorization | None) -> None:
    """Raises CommandRefused if a value may not be stated with these rights."""
    if value.interpret_as == "instruction" and not (
        rights is None or rights.may(INSTRUCTION_PERMISSION)
    ):
        raise CommandRefused(_REQUIRED)


def as_content(value: Value) -> Value:
    """The same value as content, not as an instruction."""
    return msgspec.structs.replace(value, interpret_as="content")
