import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from engramlog.projections.embedding.errors import ModelFileError
from engramlog.projections.embedding.providers.bundled import weights
from engramlog.projections.embedding.providers.bundled.weights import (
    float_tensors,
    model_folder,
    verified,
)

RNG = np.random.default_rng(5)


def write(content: bytes, path: Path) -> None:
    for suffix, part in zip(weights.SUFFIXES, weights.pack(content), strict=True):
        path.with_suffix(suffix).write_bytes(part)


@given(st.lists(st.floats(width=32) | st.just(-0.0) | st.just(float("nan"))))
def test_any_floats_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, floats: list[float]
) -> None:
    content = np.array(floats, dtype="<f4").tobytes()
    path = tmp_path_factory.getbasetemp() / "floats.bin"
    write(content, path)
    assert bytes(weights.unpack(path)) == content


def test_weights_take_a_sixth_less_and_cross_the_bounds_of_blocks(tmp_path: Path) -> None:
    floats = RNG.standard_normal(weights.NUMBERS_AT_ONCE + 7).astype("<f4") * 0.04
    write(floats.tobytes(), tmp_path / "model.bin")
    assert bytes(weights.unpack(tmp_path / "model.bin")) == floats.tobytes()
    size = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert size < 0.84 * floats.nbytes


def test_tensors_are_read_as_the_library_reads_them() -> None:
    whole = verified(model_folder(), "model.safetensors")
    ours, theirs = float_tensors(whole), load(bytes(whole))
    assert set(ours) == {name for name, each in theirs.items() if each.dtype == np.float32}
    assert all(np.array_equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_a_model_in_two_parts_is_checked_as_if_it_were_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = save({"some": RNG.standard_normal((3, 5)).astype(np.float32)})
    content += b"\0" * (-len(content) % 4)
    known = {"model.safetensors": hashlib.sha256(content).hexdigest()}
    monkeypatch.setattr(weights, "SHA256", known)
    write(content, tmp_path / "model.safetensors")
    assert bytes(verified(tmp_path, "model.safetensors")) == content

    fractions = tmp_path / "model.fractions"
    whole = fractions.read_bytes()
    fractions.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ModelFileError, match="is not the known model file"):
        verified(tmp_path, "model.safetensors")
    fractions.write_bytes(whole[:-1])
    with pytest.raises(ModelFileError, match=r"model\.fractions is damaged"):
        verified(tmp_path, "model.safetensors")
    (tmp_path / "model.exponents").write_bytes(b"not deflated")
    with pytest.raises(ModelFileError, match=r"model\.exponents is damaged"):
        verified(tmp_path, "model.safetensors")
