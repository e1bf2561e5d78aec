"""The claims that compete for a key, and what a reader prefers among them."""

from typing import Literal

from msgspec import Struct

from engramlog.projections.arrays import F64, I32, I64, Bool

Prefer = Literal["hlc", "source"]
"""``hlc``: the newest value wins a tie. ``source``: of the values of one source its newest counts,
and a tie between sources still shows every side."""


class Claims(Struct, frozen=True):
    """Claims of keys with several values: slot, key, value, voice, weight and time of each."""

    slots: I32
    keys: I32
    values: I32
    voices: I64
    weight: F64
    hlc: I64

    def only(self, kept: Bool | I64) -> "Claims":
        return Claims(
            self.slots[kept],
            self.keys[kept],
            self.values[kept],
            self.voices[kept],
            self.weight[kept],
            self.hlc[kept],
        )
