"""Types of structs, completed before threads decode them.

msgspec describes a struct when something first decodes it. In 0.22, a second thread that decodes
the same struct meanwhile reads a half-made description, and the process crashes.
"""

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.json import Decoder

_completed: set[type[Struct]] = set()


def complete_struct_types() -> None:
    """Describe every struct of the loaded modules. Call before threads start: 700 take 40 ms, and
    later calls only look for new ones."""
    for kind in _below(Struct):
        if kind not in _completed:
            _completed.add(kind)
            # Some hold types that nothing decodes.
            with suppress(TypeError, NameError):
                Decoder(kind)


def _below(kind: type[Struct]) -> Iterator[type[Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
