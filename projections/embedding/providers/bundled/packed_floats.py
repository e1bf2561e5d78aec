"""Float32 bytes in less space, bit for bit.

In trained weights exponents take few values and fractions are noise. So a file becomes two: the
exponents, entropy-coded to a third, and fraction and sign, three bytes per number, unchanged.
"""

import zlib
from pathlib import Path

import numpy as np

from engramlog.projections.arrays import U8, U16, U32

SUFFIXES = (".exponents", ".fractions")
NUMBERS_AT_ONCE = 1 << 16
"""With their intermediate results they stay in a core's cache."""


def pack(content: bytes | memoryview) -> tuple[bytes, bytes]:
    """The contents of the two files, in the order of ``SUFFIXES``; four must divide the length."""
    numbers: U32 = np.frombuffer(content, dtype="<u4")
    turned: U32 = (numbers << np.uint32(1)) | (
        numbers >> np.uint32(31)
    )  # the sign behind the fraction
    low, high, exponents = (part.tobytes() for part in _split(turned))
    # Huffman codes alone: without any matches this is smaller than full deflate.
    coder = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(exponents) + coder.flush(), low + high


def _split(turned: U32) -> tuple[U16, U8, U8]:
    single = turned.view(np.uint8)
    return turned.view("<u2")[::2], single[2::4], single[3::4]


def is_packed(path: Path) -> bool:
    """Whether both parts of the file exist."""
    return all(path.with_suffix(suffix).is_file() for suffix in SUFFIXES)


def unpack(path: Path) -> memoryview:
    """The content of a file from its two parts. Raises OSError, ValueError."""
    coded, plain = (path.with_suffix(suffix) for suffix in SUFFIXES)
    try:
        exponents = np.frombuffer(zlib.decompress(coded.read_bytes()), dtype=np.uint8)
    except zlib.error as fault:
        raise ValueError(f"{coded} is damaged: {fault}") from fault
    fractions: U8 = np.fromfile(plain, dtype=np.uint8)
    count = len(exponents)
    if len(fractions) != 3 * count:
        raise ValueError(f"{plain} is damaged: {len(fractions)} bytes, not {3 * count}")
    low: U16 = fractions[: 2 * count].view("<u2")
    high = fractions[2 * count :]
    numbers: U32 = np.empty(count, dtype="<u4")
    for at in range(0, count, NUMBERS_AT_ONCE):
        some = slice(at, at + NUMBERS_AT_ONCE)
        turned = exponents[some].astype(np.uint32) << 24
        turned |= high[some].astype(np.uint32) << 16
        turned |= low[some]
        np.bitwise_or(turned >> 1, turned << 31, out=numbers[some])
    return memoryview(numbers.view(np.uint8))
