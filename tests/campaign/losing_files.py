"""Python's files over power cuts: unsynced data is torn, a rename may be undone.

Wraps ``os.fsync``, ``os.replace`` and ``os.rename``. A cut keeps some prefix of an unsynced file,
and the first few of the renames in an unsynced folder.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

from msgspec import Struct


class _Rename(Struct, frozen=True):
    """``before``: the new name's earlier target: a link's target, a file's content, or nothing."""

    source: Path
    target: Path
    before: str | bytes | None


class LosingFiles:
    """Inside a ``with`` block, every such call below ``folder`` is a step (``on_step``)."""

    def __init__(self, folder: Path, on_step: Callable[[], None]) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self._on_step = on_step
        self._synced: dict[int, bytes] = {}
        self._renames: dict[Path, list[_Rename]] = {}
        self._patches = ExitStack()

    def __enter__(self) -> LosingFiles:
        for path in self._folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self._synced[path.stat().st_ino] = path.read_bytes()
        real_sync, real_replace, real_rename = os.fsync, os.replace, os.rename

        def sync(descriptor: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if not path.is_relative_to(self._folder):
                return real_sync(descriptor)
            self._on_step()  # before it: its effect is not yet durable
            with self.lock:
                real_sync(descriptor)
                if path.is_dir():
                    self._renames.pop(path, None)
                elif path.is_file():
                    self._synced[path.stat().st_ino] = path.read_bytes()
            return self._on_step()

        def moving(real: Callable[..., None]) -> Callable[..., None]:
            def move(source: Any, target: Any, **more: Any) -> None:
                old, new = Path(source), Path(target)
                if not new.is_relative_to(self._folder) or (old.is_dir() and not old.is_symlink()):
                    return real(source, target, **more)
                with self.lock:
                    made = _Rename(old, new, _content(new))
                    real(source, target, **more)
                    self._renames.setdefault(new.parent, []).append(made)
                return self._on_step()

            return move

        self._patches.enter_context(mock.patch.object(os, "fsync", sync))
        self._patches.enter_context(mock.patch.object(os, "replace", moving(real_replace)))
        self._patches.enter_context(mock.patch.object(os, "rename", moving(real_rename)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patches.close()

    def after_cut(self, image: Path, databases: Collection[Path], rng: random.Random) -> None:
        """Turn a copy of the folder into what a cut may leave. ``databases`` are SQLite's; call it
        under ``lock``, taken before the copy was made."""
        for path in sorted(image.rglob("*")):
            original = self._folder / path.relative_to(image)
            plain = path.is_file() and not path.is_symlink() and original.exists()
            if plain and original not in databases:
                content = path.read_bytes()
                kept = self._synced.get(original.stat().st_ino, b"")
                if content != kept:
                    least = len(kept) if content.startswith(kept) else 0
                    path.write_bytes(content[: rng.randint(least, len(content))])
        for renames in self._renames.values():
            for made in reversed(renames[rng.randint(0, len(renames)) :]):
                self._undo(made, image)

    def _undo(self, made: _Rename, image: Path) -> None:
        source, target = (
            image / each.relative_to(self._folder) for each in (made.source, made.target)
        )
        if target.is_symlink() or target.exists():
            target.rename(source)
        if isinstance(made.before, bytes):
            target.write_bytes(made.before)
        elif made.before is not None:
            target.symlink_to(made.before)


def _content(path: Path) -> str | bytes | None:
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else None
