"""Every setting of a node: its name, default, meaning and source.

A value comes from the first of: command-line flag, ``STIGMEM_*`` environment variable, TOML file,
default. An unknown key in the file is an error. An unknown variable is a warning, because other
programs share the prefix. ``docs/settings.md`` lists each setting; a test compares the page with
this file.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.normalization import SCOPES, normalize_uri
from engramlog.projections.writing.content_rules import VALUE_BYTES_MAX

PREFIX = "STIGMEM_"
"""Variables of the protocol's clients, which share the prefix and which nodes ignore."""

IN_FILE: ContextVar[Mapping[str, Any] | None] = ContextVar("IN_FILE", default=None)
"""The values of the TOML file, while settings are made with it."""

_LABEL = re.compile(r"^[^\s*]*\*?$")


def _split_list(value: object) -> object:
    """``"a, b"`` → ``("a", "b")``; sequences pass."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Labels = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]


class Settings(BaseSettings):
    """A node's settings, validated. Field ``x`` is the variable ``STIGMEM_X``, the key ``x`` of the
    file, and the flag ``--x`` if a command has one."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    data_dir: Path = Field(
        default=Path("engramlog-data"), description="Directory of the log, the key and the tables."
    )
    log: str = Field(
        default="",
        repr=False,
        description="A log in PostgreSQL (`postgresql://…`). Empty: `log.db`.",
    )
    log_durability: Literal["quorum", "server"] = Field(
        default="quorum",
        description="A write in PostgreSQL waits for a synchronous standby (`quorum`), or the "
        "server (`server`).",
    )
    scopes: Labels = Field(
        default=(),
        description="Scopes that this node holds of a log in PostgreSQL; `*`: all. Empty: as "
        "before, all in a new directory.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8765, ge=0, le=65535, description="Port; 0: any free one.")
    node_url: str = Field(default="", description="URL for other nodes. Empty: address and port.")
    auth_required: bool = Field(default=True, description="Callers need a key. Off: loopback only.")
    attestation_required: bool = Field(
        default=False,
        description="Facts need a signature by an agent key of their source.",
    )
    allowed_hosts: Labels = Field(
        default=(), description="More host names for a node without authentication."
    )
    cors_allowed_origins: Labels = Field(
        default=(), description="Origins whose pages may use the node."
    )
    cors_allowed_origin_regex: str | None = Field(
        default=None, description="A regular expression for such origins."
    )
    cors_dev_localhost: bool = Field(default=False, description="Local pages may use the node.")
    cors_allow_credentials: bool = Field(
        default=True, description="Such pages may send credentials."
    )
    connections_max: int = Field(
        default=1_000,
        ge=8,
        le=100_000,
        description="Open connections; more get 503.",
    )
    connections_per_address_max: int = Field(
        default=500,
        ge=4,
        le=100_000,
        description="Connections per address; a proxy is one address.",
    )
    request_body_bytes_max: int = Field(
        default=1_048_576, ge=1024, le=1_073_741_824, description="Largest body."
    )
    batch_body_bytes_max: int = Field(
        default=67_108_864, ge=1024, le=1_073_741_824, description="Largest body of a batch."
    )
    value_bytes_max: int = Field(
        default=262_144, ge=1, le=VALUE_BYTES_MAX, description="Largest value of a fact."
    )
    quota_reads_per_hour: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Reads an hour per entity; 0: no limit."
    )
    quota_writes_per_hour: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Writes an hour per entity; 0: no limit.",
    )
    job_facts_min: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Sweeps and lint over more facts are [jobs](facts-api.md#jobs).",
    )
    cursor_ttl_s: int = Field(
        default=300, ge=1, le=86_400, description="Lifetime of a page cursor."
    )
    shutdown_timeout_s: float = Field(
        default=10.0, ge=0, le=600, description="Time for running requests at a stop."
    )
    set_valued_relations: Labels = Field(
        default=(),
        description="Relations with several values: labels, or globs ending in `*`.",
    )
    set_valued_defaults: bool = Field(
        default=True,
        description="New nodes declare `likes`, `knows` and others set-valued.",
    )
    sanitizer_mode: Literal["warn", "strip", "block", "quarantine", "off"] = Field(
        default="warn",
        description="How to serve facts that try to command a model ([modes]"
        "(untrusted-content.md#modes)).",
    )
    recall_profile: str = Field(
        default="default", min_length=1, description="Profile of a recall that names none."
    )
    explain_permission: Literal["auto", "none", "read", "admin"] = Field(
        default="auto",
        description="Permission to explain a recall; `none`: off. `auto`: `admin`, or `read` "
        "without authentication.",
    )
    recall_workers: int | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Processes for parallel recalls. Empty: cores − 1, at most 4, up to 250,000 "
        "facts.",
    )
    recall_receipts: bool = Field(default=True, description="Recalls leave receipts in the log.")
    recall_track_interval_s: float = Field(
        default=30.0, gt=0, le=30, description="Pause between records of recall use."
    )
    card_max_age_s: float = Field(
        default=86_400.0, gt=0, le=31_536_000, description="Age at which a card is stale."
    )
    card_queue_max: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Most cards that wait for a refresh.",
    )
    embed_enabled: bool = Field(
        default=True, description="Recall compares meanings too, not only words."
    )
    embed_provider: Literal["auto", "ollama", "openai", "voyage", "minilm", "none"] = Field(
        default="auto",
        description="[Who embeds](embeddings.md).",
    )
    embed_model: str = Field(default="", description="The provider's model. Empty: its default.")
    embed_url: str = Field(default="", description="The provider's address. Empty: its default.")
    embed_dimensions: int = Field(
        default=0, ge=0, le=65_536, description="Dimensions, if the model is unknown."
    )
    embed_truncated_dimensions: int = Field(
        default=0,
        ge=0,
        le=65_536,
        description="Dimensions to keep of Matryoshka vectors; 0: all.",
    )
    embed_min_confidence: float = Field(
        default=0.1, ge=0, le=1, description="Facts need more confidence for a vector."
    )
    embed_wait_timeout_s: float = Field(
        default=10.0, ge=0, le=600, description="Longest wait with `wait=embedded`."
    )
    vectors_memory_mb: int = Field(
        default=0,
        ge=0,
        description="MiB of vectors in memory per process, the rest in a file; 0: no limit.",
    )
    time_travel_enabled: bool = Field(default=True, description="Serve `as_of`; off: 501.")
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
        description="Days back that `as_of` may go; 0: all.",
    )
    fork_events_max: int = Field(
        default=200_000,
        ge=0,
        le=10_000_000,
        description="Last position that may be [forked](time-travel.md#what-if).",
    )
    audit_sql_timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="Longest audit statement."
    )
    federation_enabled: bool = Field(default=False, description="The node has peers.")
    federation_insecure: bool = Field(
        default=False, description="Allow peers plain http and private addresses."
    )
    federation_pull_interval_s: float = Field(
        default=30.0, gt=0, le=86_400, description="Pause between the protocol's pulls."
    )
    federation_push_enabled: bool = Field(
        default=False, description="Peers may push facts; off: 405."
    )
    federation_allow_team: bool = Field(
        default=False, description="Exchange `team` facts too; `local` never."
    )
    replica_of: str = Field(default="", description="URL of the primary; this node is its replica.")
    replica_key: str = Field(
        default="",
        repr=False,
        description="Key for the primary, with permission `replicate`.",
    )
    replica_snapshot: bool = Field(
        default=True, description="A new replica starts from a snapshot."
    )
    snapshots_every_events: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Events between snapshots; 0: never."
    )
    snapshots_keep: int = Field(
        default=2, ge=1, le=1_000, description="Automatic snapshots to keep."
    )
    consolidation_enabled: bool = Field(
        default=True, description="Consolidation rules run on their cadence."
    )
    summaries_dir: str = Field(default="", description="Folder of Markdown summaries to follow.")
    summaries_owner: str = Field(
        default="system:summaries",
        min_length=1,
        max_length=2048,
        description="Source of their paragraphs.",
    )
    summaries_scope: Literal["local", "team", "company", "public"] = Field(
        default="local", description="Scope of their paragraphs."
    )
    subscriptions_max: int = Field(
        default=100, ge=0, le=100_000, description="Subscriptions per principal."
    )
    webhooks_allow_private: bool = Field(
        default=False, description="Webhooks may use private networks and http."
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then the file."""
        in_file = InitSettingsSource(settings_cls, dict(IN_FILE.get() or {}))
        return init_settings, env_settings, in_file

    def as_of_floor_us(self, now_us: int) -> int | None:
        """The earliest instant that ``as_of`` may name; None if any."""
        if not self.as_of_retention_days:
            return None
        return now_us - round(self.as_of_retention_days * 86_400 * 1_000_000)

    @property
    def explaining(self) -> Literal["none", "read", "admin"]:
        """``explain_permission`` with ``auto`` resolved."""
        if self.explain_permission == "auto":
            return "admin" if self.auth_required else "read"
        return self.explain_permission

    @property
    def embedding(self) -> EmbeddingSettings:
        """The settings of embeddings and their vectors."""
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
