"""Every setting of a node: its name, default, meaning and where its value comes from.

A value is taken from the first of: command-line flag, ``STIGMEM_*`` environment variable,
TOML file, default. A key of the file that no setting has is an error; a variable that no
setting has is a warning, because other programs share the prefix. ``docs/settings.md``
lists each setting, and a test holds the page to this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.normalization import SCOPES, normalize_uri
from engramlog.projections.writing.content_rules import VALUE_BYTES_MAX

PREFIX = "STIGMEM_"
"""Variables of the protocol's clients, which share the prefix and mean nothing to a node."""

_LABEL = re.compile(r"^[^\s*]*\*?$")


def _split_list(value: object) -> object:
    """``"a, b"`` → ``("a", "b")``; sequences pass."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Labels = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]


class Settings(BaseSettings):
    """A node's settings, validated. Field ``x`` is the variable ``STIGMEM_X``, the key ``x``
    of the file, and the flag ``--x`` where a command has one."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    data_dir: Path = Field(
        default=Path("engramlog-data"), description="Directory of the log, the key and the tables."
    )
    log: str = Field(
        default="",
        repr=False,
        description="A log in PostgreSQL (`postgresql://…`). Empty: `log.db` in the data "
        "directory.",
    )
    log_durability: Literal["quorum", "server"] = Field(
        default="quorum",
        description="When PostgreSQL acknowledges a write: `quorum` once a synchronous standby "
        "has it, `server` once the server confirms it.",
    )
    scopes: Labels = Field(
        default=(),
        description="Scopes of a log in PostgreSQL that this node holds, separated by commas; `*` "
        "holds all. Empty: as the directory has it, all in a new one.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=8765, ge=0, le=65535, description="Port to listen on; 0: any free port."
    )
    node_url: str = Field(default="", description="URL for other nodes. Empty: address and port.")
    auth_required: bool = Field(
        default=True, description="Callers need a key. Off only on loopback."
    )
    attestation_required: bool = Field(
        default=False,
        description="Facts need a signature by a registered agent key of their source; routes "
        "without signatures cannot state facts.",
    )
    allowed_hosts: Labels = Field(
        default=(), description="Further names that a node without authentication answers to."
    )
    cors_allowed_origins: Labels = Field(
        default=(), description="Origins whose pages may use the node."
    )
    cors_allowed_origin_regex: str | None = Field(
        default=None, description="A regular expression that matches such an origin whole."
    )
    cors_dev_localhost: bool = Field(
        default=False, description="Pages of `localhost` and `127.0.0.1` may use the node."
    )
    cors_allow_credentials: bool = Field(
        default=True, description="Such pages may send credentials."
    )
    set_valued_relations: Labels = Field(
        default=(),
        description="Relations with several values: labels, or globs ending in `*`. `rel:*` "
        "always.",
    )
    set_valued_defaults: bool = Field(
        default=True,
        description="A new node declares the usual relations (`likes`, `knows`, …) set-valued.",
    )
    recall_profile: str = Field(
        default="default", min_length=1, description="Profile of a recall that names none."
    )
    sanitizer_mode: Literal["warn", "strip", "block", "quarantine", "off"] = Field(
        default="warn",
        description="Facts that try to command a model: `warn` adds a warning, `strip` cuts the "
        "sentences, `block` hides the value and keeps them out of recall, "
        "`quarantine` shows them only to reviewing admins, `off` does nothing.",
    )
    explain_permission: Literal["auto", "none", "read", "admin"] = Field(
        default="auto",
        description="Permission for `explain` and `debug` of recall; `none`: off. `auto`: "
        "`admin`, or `read` without authentication.",
    )
    embed_enabled: bool = Field(
        default=True, description="Facts are embedded; recall compares meanings."
    )
    embed_provider: Literal["auto", "ollama", "openai", "voyage", "minilm", "none"] = Field(
        default="auto",
        description="Who embeds. `auto`: the pinned one; at first start Ollama if it answers, "
        "else the bundled model.",
    )
    embed_model: str = Field(default="", description="The provider's model. Empty: its default.")
    embed_url: str = Field(default="", description="The provider's address. Empty: its default.")
    embed_dimensions: int = Field(
        default=0, ge=0, le=65_536, description="Dimensions of an unknown model; 0: known."
    )
    embed_truncated_dimensions: int = Field(
        default=0,
        ge=0,
        le=65_536,
        description="Dimensions kept of a Matryoshka model's vectors; 0: all.",
    )
    embed_min_confidence: float = Field(
        default=0.1, ge=0, le=1, description="Facts with no more confidence are not embedded."
    )
    embed_wait_timeout_s: float = Field(
        default=10.0, ge=0, le=600, description="Longest wait of a write with `wait=embedded`."
    )
    vectors_memory_mb: int = Field(
        default=0,
        ge=0,
        description="MiB of vectors in memory, per process; sqlite-vec searches the rest in a "
        "file. 0: no limit.",
    )
    card_max_age_s: float = Field(
        default=86_400.0, gt=0, le=31_536_000, description="Age at which a memory card is stale."
    )
    card_queue_max: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Memory cards that wait to be written ahead.",
    )
    cursor_ttl_s: int = Field(
        default=300, ge=1, le=86_400, description="Lifetime of a page cursor."
    )
    recall_track_interval_s: float = Field(
        default=30.0, gt=0, le=30, description="Pause between recorded batches of recall use."
    )
    recall_workers: int | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Processes that answer recalls; each holds a memory image. Empty: cores − 1, "
        "at most 4, up to 250,000 facts, and only for recalls in parallel.",
    )
    subscriptions_max: int = Field(
        default=100, ge=0, le=100_000, description="Subscriptions per principal."
    )
    webhooks_allow_private: bool = Field(
        default=False, description="Webhooks may use private networks and http."
    )
    recall_receipts: bool = Field(
        default=True, description="Every recall leaves a receipt in the log."
    )
    request_body_bytes_max: int = Field(
        default=1_048_576, ge=1024, le=1_073_741_824, description="Largest body of a request."
    )
    connections_max: int = Field(
        default=1_000,
        ge=8,
        le=100_000,
        description="Open connections; fewer if the process has few file descriptors. More get "
        "503.",
    )
    connections_per_address_max: int = Field(
        default=500,
        ge=4,
        le=100_000,
        description="Connections per address; a proxy is one address.",
    )
    batch_body_bytes_max: int = Field(
        default=67_108_864, ge=1024, le=1_073_741_824, description="Largest body of a batch."
    )
    value_bytes_max: int = Field(
        default=262_144, ge=1, le=VALUE_BYTES_MAX, description="Largest value of a fact, in UTF-8."
    )
    time_travel_enabled: bool = Field(default=True, description="`as_of` is served; off: 501.")
    time_travel_allow_fact_query_as_of: bool = Field(
        default=True, description="`GET /v1/facts` takes `as_of`; off: 403."
    )
    time_travel_allow_recall_as_of: bool = Field(
        default=True, description="Recall takes `as_of`; off: 403."
    )
    as_of_retention_days: float = Field(
        default=0.0,
        ge=0,
        le=36_500,
        description="Days back that `as_of` may go; 0: to the beginning.",
    )
    audit_sql_timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="Longest run of an audit statement."
    )
    fork_events_max: int = Field(
        default=200_000,
        ge=0,
        le=10_000_000,
        description="Last position at which `/v1/time-travel/fork` forks. A fork replays from the "
        "beginning.",
    )
    job_facts_min: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Sweeps and lint over more facts are jobs: 202 with a `job_id`.",
    )
    quota_reads_per_hour: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Reads an hour per entity; 0: no limit."
    )
    quota_writes_per_hour: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Writes an hour per entity, counting batch items; 0: no limit.",
    )
    federation_enabled: bool = Field(default=False, description="The node has peers.")
    federation_insecure: bool = Field(
        default=False, description="Peers may use plain http and private addresses."
    )
    federation_pull_interval_s: float = Field(
        default=30.0, gt=0, le=86_400, description="Pause between pulls by the protocol."
    )
    federation_push_enabled: bool = Field(
        default=False, description="Peers may push facts by the protocol; off: 405."
    )
    federation_allow_team: bool = Field(
        default=False, description="Facts of scope `team` may leave and enter; `local` never."
    )
    snapshots_every_events: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Events between snapshots; 0: never."
    )
    snapshots_keep: int = Field(
        default=2, ge=1, le=1_000, description="Automatic snapshots to keep."
    )
    replica_of: str = Field(
        default="", description="URL of the primary; this node is its read-only replica."
    )
    replica_key: str = Field(
        default="",
        repr=False,
        description="Key with permission `replicate` on the primary; use a variable.",
    )
    replica_snapshot: bool = Field(
        default=True, description="A new replica starts from its primary's snapshot, if any."
    )
    consolidation_enabled: bool = Field(
        default=True, description="Consolidation rules run on their cadence."
    )
    summaries_dir: str = Field(
        default="", description="Folder of Markdown summaries to read while serving."
    )
    summaries_owner: str = Field(
        default="system:summaries",
        min_length=1,
        max_length=2048,
        description="Source of their paragraphs.",
    )
    summaries_scope: Literal["local", "team", "company", "public"] = Field(
        default="local", description="Scope of their paragraphs."
    )
    shutdown_timeout_s: float = Field(
        default=10.0, ge=0, le=600, description="Time that running requests get at a stop."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level on stderr."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto", description="`text`, `json`, or `auto`: text on a terminal."
    )
    access_log: bool = Field(default=False, description="One line on stderr per request.")

    @field_validator("node_url", "embed_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not re.match(r"^https?://[^\s/]+", url):
            raise ValueError("must be an http:// or https:// URL")
        return url.rstrip("/")

    @field_validator("cors_allowed_origin_regex")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as fault:
            raise ValueError(f"is not a regular expression: {fault}") from fault
        return pattern

    @field_validator("summaries_owner")
    @classmethod
    def _check_source(cls, source: str) -> str:
        return normalize_uri(source)

    @field_validator("set_valued_relations")
    @classmethod
    def _check_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        for label in labels:
            if not _LABEL.match(label):
                raise ValueError(f"{label!r} is not a relation label or a glob ending in *")
        return labels

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        for scope in scopes:
            if scope not in {*EVERY_SCOPE, "*"}:
                raise ValueError(f"{scope!r} is not one of {', '.join(SCOPES)}, *")
        return scopes

    def as_of_floor_us(self, now_us: int) -> int | None:
        """The earliest instant that ``as_of`` may name; None for all."""
        if not self.as_of_retention_days:
            return None
        return now_us - round(self.as_of_retention_days * 86_400 * 1_000_000)

    @property
    def explaining(self) -> Literal["none", "read", "admin"]:
        """``explain_permission``, decided."""
        if self.explain_permission == "auto":
            return "admin" if self.auth_required else "read"
        return self.explain_permission

    @property
    def embedding(self) -> EmbeddingSettings:
        """What is set of embeddings and their vectors."""
        return EmbeddingSettings(
            provider=self.embed_provider if self.embed_enabled else "none",
            model=self.embed_model or None,
            url=self.embed_url or None,
            dimensions=self.embed_dimensions or None,
            truncated_dimensions=self.embed_truncated_dimensions or None,
            min_confidence=self.embed_min_confidence,
            memory_bytes=self.vectors_memory_mb << 20 or None,
        )

    @property
    def public_url(self) -> str:
        """``node_url``, or the URL of the address it listens on."""
        if self.node_url:
            return self.node_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"
