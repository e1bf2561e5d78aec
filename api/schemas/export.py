"""The query of an export."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ExportQuery(BaseModel):
    """``declarations``: also policies, trust, rules, aliases and what else admins set."""

    model_config = ConfigDict(extra="forbid")

    declarations: bool = False
