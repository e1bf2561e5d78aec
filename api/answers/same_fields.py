"""Records of one kind as records of another."""

from typing import Any, TypeVar

from msgspec import Struct

from engramlog.projections.moment import format_instant

Shape = TypeVar("Shape", bound=Struct)


def shaped(source: object, shape: type[Shape], /, **others: Any) -> Shape:
    """``source`` as a ``shape``: the fields that both have under one name, and ``others``. An
    instant of the source in microseconds (``made_at`` or ``made_at_us``) becomes a text under
    ``made_at``. Raises TypeError if a field of ``shape`` without default is in neither."""
    names = [name for name in shape.__struct_fields__ if name not in others]
    same = {name: getattr(source, name) for name in names if hasattr(source, name)}
    for name in names:
        if name.endswith("_at"):
            instant = getattr(source, f"{name}_us", same.get(name))
            if isinstance(instant, int):
                same[name] = format_instant(instant)
    return shape(**same, **others)
