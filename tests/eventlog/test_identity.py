"""The signing key: private, never overwritten, and provably the same node after rotation."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from engramlog.eventlog import durable_file
from engramlog.eventlog import identity as identity_module
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.errors import KeyFileError
from engramlog.eventlog.identity import Identity, node_id_of, signed_by, speaks_for
from tests.worlds.samples import START_US


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "identity"


@pytest.fixture
def identity(folder: Path) -> Identity:
    return Identity.create(folder, FixedClock(START_US))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_key_is_readable_by_its_owner_only(identity: Identity, folder: Path) -> None:
    assert mode(folder) == 0o700
    assert mode(folder / "node.key") == 0o600


@pytest.mark.parametrize("open_mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused_with_its_mode(
    identity: Identity, folder: Path, open_mode: int
) -> None:
    (folder / "node.key").chmod(open_mode)
    with pytest.raises(KeyFileError, match=f"mode {open_mode:04o}, expected 0600"):
        Identity.load(folder)


def test_a_key_is_never_overwritten(identity: Identity, folder: Path) -> None:
    with pytest.raises(KeyFileError, match="never overwritten"):
        Identity.create(folder, FixedClock())
    assert Identity.load(folder).node_id == identity.node_id


def test_a_loaded_identity_equals_the_created_one(identity: Identity, folder: Path) -> None:
    loaded = Identity.load(folder)
    assert (loaded.node_id, loaded.epoch, loaded.reason) == (identity.node_id, 1, "created")
    assert signed_by(identity.public_key_b64, loaded.sign(b"message"), b"message")
    assert not signed_by(identity.public_key_b64, loaded.sign(b"message"), b"another")


def test_the_node_id_comes_from_the_first_public_key(identity: Identity) -> None:
    assert identity.node_id == node_id_of(identity.public_key_b64)
    assert identity.node_id.startswith("stigmem:node:")


@pytest.mark.parametrize("file", ["node.key", "node.json"])
def test_a_missing_or_unreadable_file_is_named(identity: Identity, folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"damaged")
    with pytest.raises(KeyFileError, match=file):
        Identity.load(folder)
    (folder / file).unlink()
    with pytest.raises(KeyFileError, match=file):
        Identity.load(folder)


def test_a_key_of_another_kind_is_refused(identity: Identity, folder: Path) -> None:
    other = X25519PrivateKey.generate()
    (folder / "node.key").write_bytes(
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(KeyFileError, match="another kind than Ed25519"):
        Identity.load(folder)


@pytest.mark.parametrize(("part", "instead"), [(":node:", ":nodf:"), ('"epoch": 1', '"epoch": 0')])
def test_a_document_that_its_keys_do_not_prove_is_refused(
    identity: Identity, folder: Path, part: str, instead: str
) -> None:
    document = folder / "node.json"
    document.write_text(document.read_text().replace(part, instead))
    for opened in (Identity.load, Identity.inspect):
        with pytest.raises(KeyFileError, match=r"node\.json is damaged.*identity backup"):
            opened(folder)


def test_no_altered_byte_of_the_key_is_an_unknown_error(identity: Identity, folder: Path) -> None:
    whole = (folder / "node.key").read_bytes()
    for number in range(len(whole)):
        altered = whole[:number] + bytes([whole[number] ^ 1]) + whole[number + 1 :]
        (folder / "node.key").write_bytes(altered)
        with suppress(KeyFileError):  # some bits mean nothing
            Identity.load(folder)


def test_a_key_of_another_node_is_refused(identity: Identity, folder: Path, tmp_path: Path) -> None:
    other = Identity.create(tmp_path / "other", FixedClock())
    (folder / "node.key").write_bytes((other.folder / "node.key").read_bytes())
    with pytest.raises(KeyFileError, match=r"expects .* put back"):
        Identity.load(folder)


def test_an_inspected_identity_has_its_id_and_cannot_sign(identity: Identity, folder: Path) -> None:
    (folder / "node.key").unlink()
    inspected = Identity.inspect(folder)
    assert inspected.node_id == identity.node_id
    with pytest.raises(KeyFileError, match="inspection"):
        inspected.sign(b"message")


def test_rotation_keeps_the_node_id_and_the_old_key_vouches_for_the_new(
    identity: Identity, folder: Path
) -> None:
    node_id, first_key = identity.node_id, identity.public_key_b64
    rotation = identity.rotate()
    assert (rotation.previous_public_key, rotation.public_key) == (
        first_key,
        identity.public_key_b64,
    )
    identity.rotate()
    loaded = Identity.load(folder)
    assert loaded.node_id == node_id
    assert loaded.public_key_b64 == identity.public_key_b64 != rotation.public_key
    assert signed_by(loaded.public_key_b64, loaded.sign(b"message"), b"message")
    assert speaks_for(node_id, loaded.public_key_b64, loaded.rotations)
    assert [mode(path) for path in sorted(folder.glob("node.key.retired-*"))] == [0o600] * 2


def test_a_key_that_no_rotation_leads_to_does_not_speak_for_the_node(
    identity: Identity, tmp_path: Path
) -> None:
    other = Identity.create(tmp_path / "other", FixedClock())
    identity.rotate()
    other.rotate()
    assert not speaks_for(identity.node_id, other.public_key_b64, identity.rotations)
    assert not speaks_for(identity.node_id, other.public_key_b64, other.rotations)
    assert not speaks_for(identity.node_id, identity.public_key_b64, [])
    assert not speaks_for(identity.node_id, "no key", [])


@pytest.mark.parametrize("step", ["link", "next key", "key in place"])
def test_a_rotation_cut_short_is_finished_or_was_never_begun(
    identity: Identity, folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(BaseException):
        pass

    def cut(*_: object) -> None:
        raise PowerCut

    before = identity.public_key_b64
    place = {
        "link": (identity_module, "_write_new"),
        "next key": (identity_module.os, "replace"),
        "key in place": (identity_module, "replace"),
    }[step]
    with monkeypatch.context() as patch:
        patch.setattr(*place, cut)
        with pytest.raises(PowerCut):
            identity.rotate()
    loaded = Identity.load(folder)
    assert (loaded.public_key_b64 == before) == (step != "key in place")
    assert speaks_for(loaded.node_id, loaded.public_key_b64, loaded.rotations)
    loaded.rotate()
    assert len(Identity.load(folder).rotations) == len(loaded.rotations)


def test_a_backup_restores_the_node_in_a_new_epoch(identity: Identity, tmp_path: Path) -> None:
    identity.rotate()
    identity.backup(tmp_path / "backup")
    restored = Identity.restore(tmp_path / "backup", tmp_path / "restored")
    assert restored.node_id == identity.node_id
    assert (restored.epoch, restored.reason) == (2, "restored")
    assert restored.public_key_b64 == identity.public_key_b64
    assert mode(tmp_path / "backup" / "node.key") == 0o600
    assert mode(tmp_path / "backup") == 0o700
    assert Identity.load(tmp_path / "restored").epoch == 2


@pytest.mark.parametrize("copied", [1, 2, 3])
def test_a_backup_during_a_rotation_restores(
    identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    identity.rotate()
    write_new = identity_module._write_new  # pyright: ignore[reportPrivateUsage]
    done = 0

    def write_then_rotate(path: Path, data: bytes) -> None:
        nonlocal done
        write_new(path, data)
        if path.parent == tmp_path / "backup":
            done += 1
            if done == copied:
                identity.rotate()

    monkeypatch.setattr(identity_module, "_write_new", write_then_rotate)
    Identity.load(identity.folder).backup(tmp_path / "backup")
    restored = Identity.restore(tmp_path / "backup", tmp_path / "restored")
    assert speaks_for(identity.node_id, restored.public_key_b64, restored.rotations)
    kept = restored.rotations
    assert list(kept) == list(identity.rotations)[: len(kept)]


def test_a_restore_takes_an_epoch_above_the_backups_and_an_empty_place(
    identity: Identity, folder: Path, tmp_path: Path
) -> None:
    identity.backup(tmp_path / "backup")
    with pytest.raises(KeyFileError, match="above the backup's 1"):
        Identity.restore(tmp_path / "backup", tmp_path / "restored", epoch=1)
    with pytest.raises(KeyFileError, match="never overwritten"):
        Identity.restore(tmp_path / "backup", folder)
    assert Identity.restore(tmp_path / "backup", tmp_path / "other", epoch=7).epoch == 7


def test_a_backup_never_overwrites_another(identity: Identity, tmp_path: Path) -> None:
    identity.backup(tmp_path / "backup")
    with pytest.raises(KeyFileError, match="never overwritten"):
        identity.backup(tmp_path / "backup")


def test_a_backup_without_room_leaves_nothing_in_the_way_of_the_next(
    identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[int]()

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable_file, "sync", fail)
    with pytest.raises(OSError, match=r"No space left.*node\.key"):
        identity.backup(tmp_path / "backup")
    assert not list((tmp_path / "backup").iterdir())
    identity.backup(tmp_path / "backup")
    assert Identity.load(tmp_path / "backup").node_id == identity.node_id
