"""The array types of the memory image's columns."""

from typing import Any, TypeAlias, TypeVar

import numpy as np

F32: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
F64: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
I64: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
I32: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
U16: TypeAlias = np.ndarray[Any, np.dtype[np.uint16]]
U32: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
U64: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
U8: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
I8: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]
Slots: TypeAlias = I32 | np.int32
"""Facts by slot: many, or one. What is computed of one is a single value: columns are read 30 times
faster that way than through an array of one."""
Keys: TypeAlias = tuple[np.ndarray[Any, Any], ...]
"""Sort keys for ``np.lexsort``, the last of them first."""
Bool: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Item = TypeVar("Item", bound=np.generic)


def grown(column: np.ndarray[Any, np.dtype[Item]], count: int) -> np.ndarray[Any, np.dtype[Item]]:
    """A longer copy of a column, zero at its end: pages that nothing writes take no memory."""
    longer = np.zeros((count, *column.shape[1:]), dtype=column.dtype)
    longer[: len(column)] = column
    return longer
