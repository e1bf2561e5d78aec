"""Reading a dictionary while another thread adds to it."""

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Held = TypeVar("Held")


def present_entries(growing: dict[Key, Held]) -> Mapping[Key, Held]:
    """The entries of a dictionary to which another thread adds. Copying takes one step of the
    interpreter; listing items does not, as making pairs may start the garbage collector, which lets
    other threads run: "dictionary changed size during iteration"."""
    return growing.copy()
