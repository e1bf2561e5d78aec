"""Requests about snapshots of the tables, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Position = Annotated[int, Field(strict=True, ge=1, le=2**53)]


class RebuildBody(BaseModel):
    """``from_scratch``: from the first event, whatever snapshots there are."""

    model_config = ConfigDict(extra="forbid")

    from_scratch: bool = False


class SnapshotBody(BaseModel):
    """``position``: of the past; null: as the tables stand."""

    model_config = ConfigDict(extra="forbid")

    position: Position | None = None


class VerifyBody(BaseModel):
    """``position``: of one snapshot; null: all. ``replay``: compare with the log, too."""

    model_config = ConfigDict(extra="forbid")

    position: Position | None = None
    replay: bool = False


class SnapshotRecord(BaseModel):
    """One snapshot. ``reason``: why no rebuild starts from it, as far as can be seen without
    reading its file; null where one may."""

    position: int
    hash: str | None
    made_at: str | None
    automatic: bool | None
    bytes: int | None
    digest: str | None
    reason: str | None


class SnapshotRemoved(BaseModel):
    """The snapshot that is gone."""

    removed: int


class SnapshotJob(BaseModel):
    """How far taking or verifying is, or how the last one went. ``steps``: of the copy, or
    events where tables are made from the log."""

    job_id: str | None
    status: Literal["idle", "running", "done", "error"]
    steps: int
    steps_total: int
    steps_per_s: float | None
    left_s: float | None
    started_at: str | None
    finished_at: str | None
    result: dict[str, Any] | None
    error: str | None


class SnapshotList(BaseModel):
    """Newest first. ``error``: why the node could not take the last one by itself."""

    snapshots: list[SnapshotRecord]
    every_events: int
    keep: int
    error: str | None
    job: SnapshotJob
