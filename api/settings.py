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
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    SettingsConfigDict,
)

from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.normalization import normalize_uri
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
        default=Path("engramlog-data"),
        description="Directory that holds the log, the key and the views.",
    )
    log: str = Field(
        default="",
        repr=False,
        description="Address of a log in PostgreSQL (`postgresql://…`). Empty: the log is in the "
        "data directory.",
    )
    log_durability: Literal["quorum", "server"] = Field(
        default="quorum",
        description="When a write to a log in PostgreSQL is acknowledged: `quorum` once a "
        "synchronous standby has it too, `server` once the server says so.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=8765, ge=0, le=65535, description="Port to listen on; 0 takes any free port."
    )
    node_url: str = Field(
        default="",
        description="URL under which others reach the node. Empty: built from address and port.",
    )
    auth_required: bool = Field(
        default=True,
        description="Whether callers must present a key. Off only on a loopback address.",
    )
    attestation_required: bool = Field(
        default=False,
        description="Whether a fact is taken only with a signature of its source, by a registered "
        "agent key. Routes that take none (deltas, summaries, memories, intents, new values of "
        "resolutions) then state nothing.",
    )
    allowed_hosts: Labels = Field(
        default=(),
        description="Names under which a node without authentication answers, beside loopback "
        "names, `host` and the name in `node_url`: for containers and proxies.",
    )
    cors_allowed_origins: Labels = Field(
        default=(),
        description="Origins whose pages may use this node from a browser, separated by commas.",
    )
    cors_allowed_origin_regex: str | None = Field(
        default=None, description="A regular expression that such an origin matches as a whole."
    )
    cors_dev_localhost: bool = Field(
        default=False,
        description="Whether pages of `localhost` and `127.0.0.1`, any port, may use this node.",
    )
    cors_allow_credentials: bool = Field(
        default=True, description="Whether such pages may send credentials."
    )
    set_valued_relations: Labels = Field(
        default=(),
        description="Relations that may hold several values at once: labels, or globs ending "
        "in `*`, separated by commas. `rel:*` always may.",
    )
    set_valued_defaults: bool = Field(
        default=True,
        description="Whether a new node declares the usual relations (`likes`, `knows`, `speaks`, "
        "`tag`, …) set-valued at its first start.",
    )
    recall_profile: str = Field(
        default="default",
        min_length=1,
        description="Recall profile that answers when none is named.",
    )
    sanitizer_mode: Literal["warn", "strip", "block", "quarantine", "off"] = Field(
        default="warn",
        description="What becomes of facts that try to command a model: `warn` serves them with "
        "warnings, `strip` without the sentences that do, `block` without their value and never "
        "to recall, `quarantine` only to admins who review them, `off` as if nothing were the "
        "matter.",
    )
    explain_permission: Literal["auto", "none", "read", "admin"] = Field(
        default="auto",
        description="Permission that `explain` and `debug` of recall need; `none` switches them "
        "off. `auto`: `read` on a node without keys, else `admin`.",
    )
    embed_enabled: bool = Field(
        default=True, description="Whether facts are embedded, so that recall compares meanings."
    )
    embed_provider: Literal["auto", "ollama", "openai", "voyage", "minilm", "none"] = Field(
        default="auto",
        description="Who embeds. `auto`: what the log pins; at the first start Ollama where it "
        "answers, else the bundled model.",
    )
    embed_model: str = Field(
        default="", description="The provider's model. Empty: the provider's default."
    )
    embed_url: str = Field(
        default="", description="Where the provider is. Empty: its own public or local address."
    )
    embed_dimensions: int = Field(
        default=0, ge=0, le=65_536, description="Dimensions of a model not known here; 0: known."
    )
    embed_truncated_dimensions: int = Field(
        default=0,
        ge=0,
        le=65_536,
        description="How many dimensions of a Matryoshka model's vectors are kept; 0: all.",
    )
    embed_min_confidence: float = Field(
        default=0.1, ge=0, le=1, description="Facts with no more confidence are not embedded."
    )
    embed_wait_timeout_s: float = Field(
        default=10.0,
        ge=0,
        le=600,
        description="Longest that a write with `wait=embedded` waits, in seconds.",
    )
    vectors_memory_mb: int = Field(
        default=0,
        ge=0,
        description="Megabytes (1,048,576 bytes) of memory that each process of the node holds "
        "vectors in. Of more vectors, sqlite-vec finds the likely ones in a file, and they are "
        "compared from there. 0: no bound.",
    )
    card_max_age_s: float = Field(
        default=86_400.0,
        gt=0,
        le=31_536_000,
        description="Seconds after which a memory card is stale, whatever it says.",
    )
    card_queue_max: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Memory cards that may wait to be written ahead; more are written when "
        "asked for.",
    )
    cursor_ttl_s: int = Field(
        default=300, ge=1, le=86_400, description="Seconds for which a page cursor stays good."
    )
    recall_track_interval_s: float = Field(
        default=30.0, gt=0, le=30, description="Seconds between recorded batches of recall use."
    )
    recall_workers: int | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Processes that answer recalls, from the first recall on; each holds a "
        "memory image of its own. Left out: one fewer than cores, at most 4, up to 250,000 facts, "
        "and only for recalls that come while another is under way.",
    )
    subscriptions_max: int = Field(
        default=100, ge=0, le=100_000, description="Subscriptions that one principal may have."
    )
    webhooks_allow_private: bool = Field(
        default=False,
        description="Whether webhooks may go to private networks, to this machine, and by http.",
    )
    recall_receipts: bool = Field(
        default=True, description="Whether every recall leaves a receipt in the log."
    )
    request_body_bytes_max: int = Field(
        default=1_048_576,
        ge=1024,
        le=1_073_741_824,
        description="Largest body of one request, in bytes.",
    )
    connections_max: int = Field(
        default=1_000,
        ge=8,
        le=100_000,
        description="Connections open at a time; fewer where the process may open fewer than 256 "
        "files more. One too many is answered 503.",
    )
    connections_per_address_max: int = Field(
        default=500,
        ge=4,
        le=100_000,
        description="Connections of one address. Behind a proxy all have the proxy's.",
    )
    batch_body_bytes_max: int = Field(
        default=67_108_864,
        ge=1024,
        le=1_073_741_824,
        description="Largest body of a batch, in bytes.",
    )
    value_bytes_max: int = Field(
        default=262_144,
        ge=1,
        le=VALUE_BYTES_MAX,
        description="Largest value of a fact, in UTF-8 bytes.",
    )
    time_travel_enabled: bool = Field(
        default=True, description="Whether `as_of` is served at all; off answers 501."
    )
    time_travel_allow_fact_query_as_of: bool = Field(
        default=True, description="Whether `GET /v1/facts` takes `as_of`; off answers 403."
    )
    time_travel_allow_recall_as_of: bool = Field(
        default=True, description="Whether recall takes `as_of`; off answers 403."
    )
    as_of_retention_days: float = Field(
        default=0.0,
        ge=0,
        le=36_500,
        description="How many days back `as_of` may go; before that it answers 400 "
        "`as_of_before_retention_floor`. 0: to the beginning.",
    )
    audit_sql_timeout_s: float = Field(
        default=10.0, gt=0, le=600, description="Longest that an audit statement may run."
    )
    fork_events_max: int = Field(
        default=200_000,
        ge=0,
        le=10_000_000,
        description="Last position at which `/v1/time-travel/fork` forks: a moment of the past "
        "is replayed from the beginning, about 20,000 events a second.",
    )
    job_facts_min: int = Field(
        default=100_000,
        ge=0,
        le=1_000_000_000,
        description="Sweeps and lint over more facts than these are jobs: 202 with a `job_id`.",
    )
    quota_reads_per_hour: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Reads an hour for each key's entity; 0: no limit.",
    )
    quota_writes_per_hour: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Writes an hour for each key's entity, each item of a batch one; 0: no limit.",
    )
    federation_enabled: bool = Field(
        default=False, description="Whether this node has peers: declares, replays and serves them."
    )
    federation_insecure: bool = Field(
        default=False, description="Whether peers may have plain http and private addresses."
    )
    federation_pull_interval_s: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="Pause between two rounds of pulling a peer by the protocol.",
    )
    federation_push_enabled: bool = Field(
        default=False,
        description="Whether peers may push facts by the protocol; 405 where not.",
    )
    federation_allow_team: bool = Field(
        default=False,
        description="Whether facts of scope team may leave and enter; local never does.",
    )
    snapshots_every_events: int = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Events after which the node takes a snapshot of its tables; 0: never.",
    )
    snapshots_keep: int = Field(
        default=2,
        ge=1,
        le=1_000,
        description="How many of the snapshots it took by itself a node keeps.",
    )
    replica_of: str = Field(
        default="",
        description="URL of the primary of which this node is a read-only replica; none if empty.",
    )
    replica_key: str = Field(
        default="",
        repr=False,
        description="Key with permission replicate on the primary; best given as a variable.",
    )
    replica_snapshot: bool = Field(
        default=True,
        description="Whether a new replica starts from a snapshot of its primary, where that has "
        "one, instead of projecting the whole log.",
    )
    consolidation_enabled: bool = Field(
        default=True,
        description="Whether consolidation rules fire by themselves, on their cadence.",
    )
    summaries_dir: str = Field(
        default="",
        description="Folder of Markdown summaries that the serving node takes in; none if empty.",
    )
    summaries_owner: str = Field(
        default="system:summaries",
        min_length=1,
        max_length=2048,
        description="Whose those summaries are: the source of their paragraphs.",
    )
    summaries_scope: Literal["local", "team", "company", "public"] = Field(
        default="local", description="Scope of the paragraphs of those summaries."
    )
    shutdown_timeout_s: float = Field(
        default=10.0,
        ge=0,
        le=600,
        description="Seconds that running requests get to finish at a stop.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is logged to stderr."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="`text` for people, `json` for collectors; `auto` is text on a terminal.",
    )
    access_log: bool = Field(
        default=False, description="Whether each request is logged, as one line on stderr."
    )

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
