"""Requests about snapshots of the tables."""

from typing import Annotated

from pydantic import Field

from engramlog.api.schemas.model import Model

Position = Annotated[int, Field(strict=True, ge=1, le=2**53)]


class RebuildBody(Model, extra="forbid"):
    """``from_scratch``: from the first event, without snapshots."""

    from_scratch: bool = False


class SnapshotBody(Model, extra="forbid"):
    """``position``: a past one; null: the current tables."""

    position: Position | None = None


class VerifyBody(Model, extra="forbid"):
    """``position``: of one snapshot; null: all. ``replay``: also compare with the log."""

    position: Position | None = None
    replay: bool = False
