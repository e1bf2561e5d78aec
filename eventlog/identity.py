"""The node's signing key and identity.

``identity/`` (0700) holds ``node.key`` (Ed25519, PEM, 0600), retired keys beside it, and
``node.json`` (public). The node id comes from the first public key and stays when keys rotate. A
key that others can read is refused, never repaired silently.
"""

import base64
import hashlib
import os
import stat
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct, field

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.durable_file import replace, sync_folder, write_new
from engramlog.eventlog.errors import KeyFileError

KEY_FILE = "node.key"
NODE_FILE = "node.json"
ROTATION_CONTEXT = b"engramlog/node-key-rotation/1\n"

_FROM_BACKUP = ": put back the one that 'engramlog identity backup' or a backup kept"

EpochReason = Literal["created", "restored", "copied"]


class Rotation(Struct, frozen=True):
    """One change of key: the previous key signed the next. The fields of NodeKeyRotated."""

    previous_public_key: str
    public_key: str
    signature: str


class NodeDocument(Struct, frozen=True):
    """``node.json``: everything public about the node's identity."""

    node_id: str
    epoch: int
    public_key: str
    created_at: int
    reason: EpochReason = "created"
    rotations: list[Rotation] = field(default_factory=list)


class Identity:
    """The node's id and its signing key. ``create`` or ``load`` one."""

    def __init__(self, folder: Path, document: NodeDocument, key: Ed25519PrivateKey | None) -> None:
        self.folder = folder
        self._document = document
        self._key = key

    @classmethod
    def create(cls, folder: Path, clock: Clock) -> Self:
        """A new key and node id in epoch 1. Raises KeyFileError if a key exists."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = Ed25519PrivateKey.generate()
        _write_new(folder / KEY_FILE, _pem(key))
        public_key = _public_text(key)
        document = NodeDocument(node_id_of(public_key), 1, public_key, clock.now_us())
        replace(folder / NODE_FILE, _encode(document))
        return cls(folder, document, key)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The identity in ``folder``. Finishes a rotation after a crash. Raises KeyFileError: a
        file is missing, unreadable, open to others, or the key is not the one in ``node.json``."""
        document = read_node_document(folder)
        key = _load_key(folder / KEY_FILE)
        identity = cls(folder, document, key)
        if _public_text(key) != document.public_key:
            identity._finish_rotation(key)
        return identity

    @classmethod
    def inspect(cls, folder: Path) -> Self:
        """The public part only; such an identity cannot sign."""
        return cls(folder, read_node_document(folder), None)

    @classmethod
    def restore(cls, backup: Path, folder: Path, *, epoch: int | None = None) -> Self:
        """Take an identity from a backup, in a new epoch.

        The backup does not know later signatures, so streams start again: ``epoch`` must be above
        any that the lost node used (default: the backup's + 1). Raises KeyFileError if ``folder``
        holds a key, or ``epoch`` is not above the backup's.
        """
        source = cls.load(backup)
        next_epoch = source.epoch + 1 if epoch is None else epoch
        if next_epoch <= source.epoch:
            raise KeyFileError(f"epoch must be above the backup's {source.epoch}, is {next_epoch}")
        source.backup(folder)
        return cls.load(folder).start_epoch(next_epoch, "restored")

    @property
    def node_id(self) -> str:
        """``stigmem:node:`` and a UUID of the first public key."""
        return self._document.node_id

    @property
    def epoch(self) -> int:
        """The epoch of the node's streams."""
        return self._document.epoch

    @property
    def reason(self) -> EpochReason:
        """Why this epoch was started, for the EpochStarted event."""
        return self._document.reason

    @property
    def public_key_b64(self) -> str:
        """The current public key, 32 bytes in base64."""
        return self._document.public_key

    @property
    def rotations(self) -> Sequence[Rotation]:
        """Every change of key, oldest first: proof that the current key belongs to node_id."""
        return self._document.rotations

    def sign(self, message: bytes) -> bytes:
        """Ed25519 signature, 64 bytes. Raises KeyFileError on an inspected identity."""
        if self._key is None:
            raise KeyFileError(f"the key in {self.folder} was not loaded: this is an inspection")
        return self._key.sign(message)

    def backup(self, to: Path) -> None:
        """Copy keys and document to the new folder ``to``. Raises KeyFileError unless it is empty:
        a private key must not lie among other files. The document first and retired keys last: if
        the key changes meanwhile, the copy is of a rotation under way, which ``load`` finishes."""
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(to.iterdir()):
            raise KeyFileError(f"{to} is not empty: keys are never overwritten; name a new folder")
        try:
            for name in (NODE_FILE, KEY_FILE):
                _write_new(to / name, (self.folder / name).read_bytes())
            for file in sorted(self.folder.glob(f"{KEY_FILE}.*")):
                _write_new(to / file.name, file.read_bytes())
            sync_folder(to)
        except BaseException:  # so that it can be tried again
            for file in to.iterdir():
                file.unlink()
            raise

    def rotate(self) -> Rotation:
        """Sign with a new key from now on; the old key vouches for it and is kept as
        ``node.key.retired-N``. The caller records the returned fields as NodeKeyRotated."""
        previous = _load_key(self.folder / KEY_FILE)
        next_key = Ed25519PrivateKey.generate()
        number = len(self._document.rotations) + 1
        retired, staged = (self.folder / f"{KEY_FILE}.retired-{number}", self.folder / "next.key")
        for leftover in (retired, staged):  # of a rotation that crashed before it began
            leftover.unlink(missing_ok=True)
        # A link keeps the inode, which proves that the directory is not a copy.
        os.link(self.folder / KEY_FILE, retired)
        _write_new(staged, _pem(next_key))
        os.replace(staged, self.folder / KEY_FILE)
        sync_folder(self.folder)
        return self._adopt(previous, next_key)

    def start_epoch(self, epoch: int, reason: EpochReason) -> Self:
        """Write streams under ``epoch`` from now on. Returns itself."""
        self._save(msgspec.structs.replace(self._document, epoch=epoch, reason=reason))
        return self

    def _finish_rotation(self, key: Ed25519PrivateKey) -> None:
        retired = self.folder / f"{KEY_FILE}.retired-{len(self._document.rotations) + 1}"
        previous = _load_key(retired) if retired.exists() else None
        if previous is None or _public_text(previous) != self.public_key_b64:
            raise KeyFileError(
                f"{self.folder / KEY_FILE} holds key {_public_text(key)}, "
                f"{NODE_FILE} expects {self.public_key_b64}{_FROM_BACKUP}"
            )
        self._adopt(previous, key)

    def _adopt(self, previous: Ed25519PrivateKey, key: Ed25519PrivateKey) -> Rotation:
        public_key = _public_text(key)
        signature = previous.sign(rotation_message(self.node_id, public_key))
        rotation = Rotation(_public_text(previous), public_key, _text(signature))
        rotations = [*self._document.rotations, rotation]
        self._key = key
        self._save(
            msgspec.structs.replace(self._document, public_key=public_key, rotations=rotations)
        )
        return rotation

    def _save(self, document: NodeDocument) -> None:
        replace(self.folder / NODE_FILE, _encode(document))
        self._document = document


def node_id_of(first_public_key: str) -> str:
    """The node id that belongs to a node's first public key (base64)."""
    digest = hashlib.sha256(base64.b64decode(first_public_key)).digest()
    return f"stigmem:node:{uuid.UUID(bytes=digest[:16])}"


def rotation_message(node_id: str, public_key: str) -> bytes:
    """The message that the previous key signs to hand over to ``public_key`` (base64)."""
    return ROTATION_CONTEXT + f"{node_id}\n{public_key}".encode()


def speaks_for(node_id: str, public_key: str, rotations: Sequence[Rotation]) -> bool:
    """Whether ``rotations`` lead from the key that ``node_id`` is derived from to this one."""
    current = rotations[0].previous_public_key if rotations else public_key
    try:
        if node_id_of(current) != node_id:
            return False
        for rotation in rotations:
            if not _replaces(rotation, current, node_id):
                return False
            current = rotation.public_key
    except ValueError:
        return False
    return current == public_key


def current_key(node_id: str, known: str, rotations: Sequence[Rotation]) -> str:
    """The key that ``rotations`` lead to from a known one (base64); itself if none replaces it.
    Raises ValueError for a malformed rotation."""
    for rotation in rotations:
        if _replaces(rotation, known, node_id):
            known = rotation.public_key
    return known


def _replaces(rotation: Rotation, key: str, node_id: str) -> bool:
    """Whether the key (base64) signed that this rotation's key replaces it. Raises ValueError for a
    malformed rotation."""
    message = rotation_message(node_id, rotation.public_key)
    return rotation.previous_public_key == key and signed_by(
        key, base64.b64decode(rotation.signature), message
    )


def signed_by(public_key: str, signature: bytes, message: bytes) -> bool:
    """Whether the key (base64) made the signature. Raises ValueError for an invalid key."""
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key)).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def read_node_document(folder: Path) -> NodeDocument:
    """``node.json`` of an identity folder. Raises KeyFileError, also if the node id does not follow
    from the keys: the node would write as another one."""
    path = folder / NODE_FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=NodeDocument)
    except (OSError, ValueError) as fault:
        raise KeyFileError(f"cannot read {path}: {fault}{_FROM_BACKUP}") from fault
    if found.epoch < 1 or not speaks_for(found.node_id, found.public_key, found.rotations):
        raise KeyFileError(
            f"{path} is damaged: node id {found.node_id}, epoch {found.epoch} and the keys do not "
            f"belong together{_FROM_BACKUP}"
        )
    return found


def _load_key(path: Path) -> Ed25519PrivateKey:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        data = path.read_bytes()
    except OSError as fault:
        raise KeyFileError(f"cannot read the signing key {path}: {fault}{_FROM_BACKUP}") from fault
    if mode & 0o077:
        raise KeyFileError(
            f"{path} has mode {mode:04o}, expected 0600: others may have read the key; "
            f"chmod 600 it, and rotate it if they did"
        )
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, UnsupportedAlgorithm, InternalError) as fault:
        raise KeyFileError(f"{path} holds no readable key{_FROM_BACKUP}") from fault
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind than Ed25519")
    return key


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_text(key: Ed25519PrivateKey) -> str:
    return _text(
        key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _encode(document: NodeDocument) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _write_new(path: Path, data: bytes) -> None:
    try:
        write_new(path, data)
    except FileExistsError as fault:
        raise KeyFileError(f"{path} exists already; it is never overwritten") from fault
