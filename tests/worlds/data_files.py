"""The bytes in the files of a data directory."""

from pathlib import Path


def files_with(folder: Path, *needles: bytes) -> dict[str, list[bytes]]:
    """Files under a folder that contain any of the byte strings, and which."""
    found = {
        str(path.relative_to(folder)): [needle for needle in needles if needle in path.read_bytes()]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {name: held for name, held in found.items() if held}
