"""Records of one kind as records of another."""

from typing import Any, TypeVar

from msgspec import Struct

Shape = TypeVar("Shape", bound=Struct)


def shaped(source: object, shape: type[Shape], /, **others: Any) -> Shape:
    """``source`` as a ``shape``: the fields that both have under one name, and ``others``.

    Raises TypeError if a field of ``shape`` without default is in neither.
    """
    names = [name for name in shape.__struct_fields__ if name not in others]
    same = {name: getattr(source, name) for name in names if hasattr(source, name)}
    return shape(**same, **others)
