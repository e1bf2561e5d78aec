"""Ways in which a disk damages a database."""

from pathlib import Path

DAMAGES = ("cut in half", "overwritten", "zeros behind the first page")
PAGE_BYTES = 4096


def damage(file: Path, how: str) -> None:
    """Damage a file of a stopped process."""
    content = file.read_bytes()
    match how:
        case "cut in half":
            content = content[: len(content) // 2]
        case "overwritten":
            content = b"not a database at all" * 1_000
        case _:
            content = content[:PAGE_BYTES] + bytes(len(content) - PAGE_BYTES)
    file.write_bytes(content)
