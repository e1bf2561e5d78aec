"""The bytes in the files of a data directory."""

from contextlib import suppress
from pathlib import Path


def files_with(folder: Path, *needles: bytes) -> dict[str, list[bytes]]:
    """Files under a folder that contain any of the byte strings, and which."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # a running node removed or renamed it meanwhile
            held = [needle for needle in needles if path.is_file() and needle in path.read_bytes()]
            if held:
                found[str(path.relative_to(folder))] = held
    return found
