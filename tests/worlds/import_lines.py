"""Lines of files to import."""

from __future__ import annotations

import json


def lines(*items: object) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)
