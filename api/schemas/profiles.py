"""The body that installs a recall profile; ``projections.recall.profile`` checks it."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel


class ProfileDocument(RootModel[dict[str, Any]]):
    """A profile as ``GET /v1/profiles/{name}`` shows it under ``document``."""
