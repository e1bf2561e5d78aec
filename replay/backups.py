"""Backups: a node's log, tables, vectors and keys in one folder, and restoring a node from it.

The node keeps running: each database is copied in one read transaction, the tables before the log,
so that the log is never behind them. The manifest is written last; a folder without one is not a
backup. A restore checks every byte first, and writes in a new epoch, because events after the
backup are unknown.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import BACKUP_MANIFEST, DataDirectory, remember_place
from engramlog.eventlog.durable_file import digest_of, naming, sync_file, sync_folder, write_new
from engramlog.eventlog.engines.sqlite.copying import copy_database
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.eventlog.errors import EventLogError, StorageFailed
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.signing import SignedHeads, sign_heads, signature_fault
from engramlog.projections.tables.declared.subscriptions import LEDGER_NAME
from engramlog.projections.tables.store import current_generation, new_generation, point_link
from engramlog.replay.replication.state import PROMOTED_FILE, STATE_FILE
from engramlog.replay.snapshot import copy_in_use
from engramlog.replay.verify import verify_file

FORMAT = 1
TABLES = "projections.db"
VECTORS = ("vectors-*.db", "embeddings.db", LEDGER_NAME)
Progress = Callable[[str, int, int], None]
"""Called with (file or step, done, all)."""

_encode = msgspec.json.Encoder(order="sorted").encode


class BackupFault(EventLogError):
    """A backup cannot be made in this place, or this one cannot be restored."""


class BackedUp(Struct, frozen=True):
    """One file of a backup."""

    name: str
    sha256: str
    bytes: int


class BackupManifest(Struct, frozen=True):
    """The content of a backup. ``heads``: the node's signed statement of its streams' ends."""

    format: int
    node_id: str
    epoch: int
    made_at_us: int
    position: int
    heads: SignedHeads
    files: list[BackedUp]


def make_backup(data: Path, target: Path, clock: Clock, progress: Progress) -> BackupManifest:
    """Back up the data directory ``data``, in use or not, to the new folder ``target``, which a
    failure leaves empty or removes.

    Raises BackupFault: the target is not empty. DataDirectoryError, KeyFileError, StorageError:
    something cannot be read or written."""
    directory = DataDirectory.inspect(data)
    directory.require_whole_log()
    existed = target.exists()
    if existed and any(target.iterdir()):
        whole = (target / BACKUP_MANIFEST).exists()
        unfinished = "" if whole else f", and this one has no {BACKUP_MANIFEST}"
        raise BackupFault(f"{target} is not empty: a backup needs an empty folder{unfinished}")
    sources = _databases(directory)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return _fill(directory, sources, target, clock, progress)
    except BaseException:  # it may hold the keys
        shutil.rmtree(target, ignore_errors=True)
        if existed:
            target.mkdir(mode=0o700, exist_ok=True)
        raise


def _fill(
    directory: DataDirectory,
    sources: Sequence[tuple[str, Path]],
    target: Path,
    clock: Clock,
    progress: Progress,
) -> BackupManifest:
    """Copy the sources and the identity to ``target``, and write the manifest last."""
    copied: list[str] = []
    for number, (name, source) in enumerate(sources):
        progress(name, number, len(sources))
        if _copied(directory, source, target / name):
            copied.append(name)
    for name in (STATE_FILE, PROMOTED_FILE):  # else a restored replica would be a primary
        if (directory.path / name).exists():
            shutil.copyfile(directory.path / name, target / name)
            copied.append(name)
    Identity.load(directory.path / "identity").backup(target / "identity")
    identity = Identity.load(target / "identity")
    position, heads = _statement(target / "log.db", identity, clock)
    keys = [f"identity/{path.name}" for path in sorted((target / "identity").iterdir())]
    names = [*copied, *keys]
    files = [_describe_file(target, name) for name in names]
    manifest = BackupManifest(
        FORMAT, identity.node_id, identity.epoch, clock.now_us(), position, heads, files
    )
    for name in names:
        sync_file(target / name)
    write_new(target / BACKUP_MANIFEST, _encode(manifest) + b"\n")
    sync_folder(target)
    progress("done", len(sources), len(sources))
    return manifest


def _databases(directory: DataDirectory) -> list[tuple[str, Path]]:
    """Name in the backup, and source file; the log last."""
    found: list[tuple[str, Path]] = []
    tables = current_generation(directory.projections_path)
    if tables is not None:
        found.append((TABLES, tables))
    for pattern in VECTORS:
        found += [(path.name, path) for path in sorted(directory.path.glob(pattern))]
    if not directory.log_path.exists():
        raise BackupFault(
            f"{directory.path} holds no log (one in PostgreSQL is backed up with its server)"
        )
    return [*found, (directory.log_path.name, directory.log_path)]


def _copied(directory: DataDirectory, source: Path, target: Path) -> bool:
    """Copy a database; whether there was one. Meanwhile the node may have replaced its tables,
    after a rebuild, and removed vectors, after re-indexing."""
    if target.name == TABLES:
        copy_in_use(directory.projections_path, target)
        return True
    try:
        copy_database(source, target)
    except StorageFailed:
        if source == directory.log_path or source.exists():
            raise
        return False
    return True


def _statement(path: Path, identity: Identity, clock: Clock) -> tuple[int, SignedHeads]:
    with closing(
        SqliteLog.open(
            path, origin=identity.node_id, epoch=identity.epoch, clock=clock, read_only=True
        )
    ) as log:
        head = log.head()
        return head.position, sign_heads(identity, head, log.stream_heads(), clock.now_us())


def _describe_file(folder: Path, name: str) -> BackedUp:
    return BackedUp(name, *digest_of(folder / name))


def read_manifest(backup: Path) -> BackupManifest:
    """The manifest of a backup. Raises BackupFault without a readable one."""
    try:
        manifest = msgspec.json.decode((backup / BACKUP_MANIFEST).read_bytes(), type=BackupManifest)
    except FileNotFoundError as fault:
        raise BackupFault(f"{backup} is no whole backup: it has no {BACKUP_MANIFEST}") from fault
    except (OSError, ValueError) as fault:
        raise BackupFault(f"{backup / BACKUP_MANIFEST} cannot be read: {fault}") from fault
    if manifest.format != FORMAT:
        raise BackupFault(f"{backup} has format {manifest.format}, this release reads {FORMAT}")
    return manifest


def check_backup(backup: Path, progress: Progress) -> BackupManifest:
    """Check every file of a backup, the chains of its log, and the signed heads. Raises
    BackupFault: a file is missing, altered, or differs from the signed heads; the message names
    it."""
    manifest = read_manifest(backup)
    for number, file in enumerate(manifest.files):
        progress(file.name, number, len(manifest.files))
        if Path(file.name).is_absolute() or ".." in Path(file.name).parts:
            raise BackupFault(f"{file.name} is outside the backup")
        if not (backup / file.name).is_file():
            raise BackupFault(f"{file.name} is missing from the backup")
        if _describe_file(backup, file.name) != file:
            raise BackupFault(f"{file.name} is not as it was backed up")
    fault = signature_fault(manifest.heads)
    if fault is not None or manifest.heads.node_id != manifest.node_id:
        raise BackupFault(
            f"the signed heads in {BACKUP_MANIFEST} do not verify: {fault or 'other node'}"
        )
    report = verify_file(
        backup / "log.db", origin=manifest.node_id, epoch=manifest.epoch, against=manifest.heads
    )
    if report.fault is not None:
        raise BackupFault(f"log.db, position {report.fault.position}: {report.fault.reason}")
    progress("checked", len(manifest.files), len(manifest.files))
    return manifest


def restore_backup(
    backup: Path, data: Path, progress: Progress, *, epoch: int | None = None
) -> BackupManifest:
    """Make the data directory ``data`` from a backup, as the same node in a new epoch. ``data``
    appears completely or not at all. Raises BackupFault: the backup is damaged, or ``data`` exists.
    KeyFileError: ``epoch`` is not above the backup's."""
    data = data.resolve()  # the place that ``.`` or a link names
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise BackupFault(f"{data} exists: a restore needs a new directory")
    manifest = check_backup(backup, progress)
    data.parent.mkdir(parents=True, exist_ok=True)
    staged = data.with_name(f"{data.name}.restoring")
    shutil.rmtree(staged, ignore_errors=True)
    try:
        _stage(backup, manifest, staged, epoch)
        if data.exists():
            data.rmdir()
        staged.rename(data)
    except BaseException:  # it holds the keys
        shutil.rmtree(staged, ignore_errors=True)
        raise
    remember_place(data)
    sync_folder(data.parent)
    return manifest


def _stage(backup: Path, manifest: BackupManifest, staged: Path, epoch: int | None) -> None:
    staged.mkdir(mode=0o700)
    for file in manifest.files:
        if file.name.startswith("identity/"):
            continue
        target = staged / file.name
        if file.name == TABLES:
            target = new_generation(staged / TABLES)
        with naming(target):
            shutil.copyfile(backup / file.name, target)
        sync_file(target)
        if file.name == TABLES:
            point_link(staged / TABLES, target)
    Identity.restore(backup / "identity", staged / "identity", epoch=epoch)
    sync_folder(staged / "identity")
    sync_folder(staged)
