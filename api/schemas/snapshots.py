"""Requests about snapshots of the tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from engramlog.api.schemas.model import Model

Position = Annotated[int, Field(strict=True, ge=1, le=2**53)]


class RebuildBody(Model):
    """``from_scratch``: from the first event, without snapshots."""

    model_config = ConfigDict(extra="forbid")

    from_scratch: bool = False


class SnapshotBody(Model):
    """``position``: a past one; null: the current tables."""

    model_config = ConfigDict(extra="forbid")

    position: Position | None = None


class VerifyBody(Model):
    """``position``: of one snapshot; null: all. ``replay``: also compare with the log."""

    model_config = ConfigDict(extra="forbid")

    position: Position | None = None
    replay: bool = False
