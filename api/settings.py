"""Every setting of a node: its name, default, meaning and source.

A value comes from the first of: command-line flag, ``STIGMEM_*`` environment variable, TOML file,
default. An unknown key in the file is an error. An unknown variable is a warning, because other
programs share the prefix. ``docs/settings.md`` lists each setting; a test compares the page with
this file.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator

from engramlog.eventlog.kinds import Scope
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.normalization import SCOPES, normalize_uri
from engramlog.projections.writing.content_rules import VALUE_BYTES_MAX

PREFIX = "STIGMEM_"

_RELATION = re.compile(r"^[^\s*]*\*?$")
_SCOPE = re.compile(rf"^({'|'.join(SCOPES)}|\*)$")
_ORIGIN = re.compile(r"^(null|[a-z][a-z0-9+.-]*://[^\s/*?#]+/?)$")
_HOST = re.compile(r"^([^\s/:*@\[\]]+|(?=.*:.*:)[0-9A-Fa-f:.]+)$")
"""A name, or an IPv6 address without brackets."""


def _split_list(value: object) -> object:
    """``"a, b"`` → ``("a", "b")``; sequences pass."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _absent_if_empty(value: object) -> object:
    return None if value == "" else value


def _check_not_empty(value: object) -> object:
    if value == "":
        raise ValueError("must not be empty")
    return value


def _each(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if not pattern.match(each):
                raise ValueError(f"{each!r} is not {wanted}")
        return given

    return AfterValidator(check)


Labels = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
HostNames = Annotated[Labels, _each(_HOST, "a host name without scheme and port")]
Origins = Annotated[Labels, _each(_ORIGIN, "an origin, such as https://app.example")]
Relations = Annotated[Labels, _each(_RELATION, "a relation label or a glob ending in *")]
HeldScopes = Annotated[Labels, _each(_SCOPE, f"one of {', '.join(SCOPES)}, *")]


def setting(default: Any, meaning: str, **bounds: Any) -> Any:
    """A field with its default, its meaning for people, and its bounds."""
    return Field(default=default, description=meaning, **bounds)


class Settings(BaseModel, extra="forbid", frozen=True):
    """A node's settings, validated. Field ``x`` is the variable ``STIGMEM_X``, the key ``x`` of the
    file, and the flag ``--x`` if a command has one."""

    data_dir: Annotated[Path, BeforeValidator(_check_not_empty)] = setting(
        Path("engramlog-data"), "Directory of the log, the key and the tables."
    )
    log: str = setting("", "A log in PostgreSQL (`postgresql://…`). Empty: `log.db`.", repr=False)
    log_durability: Literal["quorum", "server"] = setting(
        "quorum",
        "A write in PostgreSQL waits for a synchronous standby (`quorum`), or the "
        "server (`server`).",
    )
    scopes: HeldScopes = setting(
        (),
        "Scopes that this node holds of a log in PostgreSQL; `*`: all. Empty: as "
        "before, all in a new directory.",
    )
    host: str = setting("127.0.0.1", "Address to listen on.", min_length=1)
    port: int = setting(8765, "Port; 0: any free one.", ge=0, le=65535)
    node_url: str = setting("", "URL for other nodes. Empty: address and port.")
    auth_required: bool = setting(True, "Callers need a key. Off: loopback only.")
    attestation_required: bool = setting(
        False, "Facts need a signature by an agent key of their source."
    )
    allowed_hosts: HostNames = setting((), "More host names for a node without authentication.")
    cors_allowed_origins: Origins = setting((), "Origins whose pages may use the node.")
    cors_allowed_origin_regex: str | None = setting(None, "A regular expression for such origins.")
    cors_dev_localhost: bool = setting(False, "Local pages may use the node.")
    cors_allow_credentials: bool = setting(True, "Such pages may send credentials.")
    connections_max: int = setting(1_000, "Open connections; more get 503.", ge=8, le=100_000)
    connections_per_address_max: int = setting(
        500, "Connections per address; a proxy is one address.", ge=4, le=100_000
    )
    request_body_bytes_max: int = setting(1_048_576, "Largest body.", ge=1024, le=1_073_741_824)
    batch_body_bytes_max: int = setting(
        67_108_864, "Largest body of a batch.", ge=1024, le=1_073_741_824
    )
    value_bytes_max: int = setting(262_144, "Largest value of a fact.", ge=1, le=VALUE_BYTES_MAX)
    quota_reads_per_hour: int = setting(
        0, "Reads an hour per entity; 0: no limit.", ge=0, le=1_000_000_000
    )
    quota_writes_per_hour: int = setting(
        0, "Writes an hour per entity; 0: no limit.", ge=0, le=1_000_000_000
    )
    job_facts_min: int = setting(
        100_000,
        "Sweeps and lint over more facts are [jobs](facts-api.md#jobs).",
        ge=0,
        le=1_000_000_000,
    )
    cursor_ttl_s: int = setting(300, "Lifetime of a page cursor.", ge=1, le=86_400)
    shutdown_timeout_s: float = setting(10.0, "Time for running requests at a stop.", ge=0, le=600)
    set_valued_relations: Relations = setting(
        (), "Relations with several values: labels, or globs ending in `*`."
    )
    set_valued_defaults: bool = setting(
        True, "New nodes declare `likes`, `knows` and others set-valued."
    )
    sanitizer_mode: Literal["warn", "strip", "block", "quarantine", "off"] = setting(
        "warn",
        "How to serve facts that try to command a model ([modes](untrusted-content.md#modes)).",
    )
    recall_profile: str = setting("default", "Profile of a recall that names none.", min_length=1)
    explain_permission: Literal["auto", "none", "read", "admin"] = setting(
        "auto",
        "Permission to explain a recall; `none`: off. `auto`: `admin`, or `read` "
        "without authentication.",
    )
    recall_workers: Annotated[int | None, BeforeValidator(_absent_if_empty)] = setting(
        None,
        "Processes for parallel recalls. Empty: cores − 1, at most 4, up to 250,000 facts.",
        ge=0,
        le=64,
    )
    recall_receipts: bool = setting(True, "Recalls leave receipts in the log.")
    recall_track_interval_s: float = setting(
        30.0, "Pause between records of recall use.", gt=0, le=30
    )
    card_max_age_s: float = setting(86_400.0, "Age at which a card is stale.", gt=0, le=31_536_000)
    card_queue_max: int = setting(10_000, "Most cards that wait for a refresh.", ge=1, le=1_000_000)
    embed_enabled: bool = setting(True, "Recall compares meanings too, not only words.")
    embed_provider: Literal["auto", "ollama", "openai", "voyage", "minilm", "none"] = setting(
        "auto", "[Who embeds](embeddings.md)."
    )
    embed_model: str = setting("", "The provider's model. Empty: its default.")
    embed_url: str = setting("", "The provider's address. Empty: its default.")
    embed_dimensions: int = setting(0, "Dimensions, if the model is unknown.", ge=0, le=65_536)
    embed_truncated_dimensions: int = setting(
        0, "Dimensions to keep of Matryoshka vectors; 0: all.", ge=0, le=65_536
    )
    embed_min_confidence: float = setting(
        0.1, "Facts need more confidence for a vector.", ge=0, le=1
    )
    embed_wait_timeout_s: float = setting(10.0, "Longest wait with `wait=embedded`.", ge=0, le=600)
    vectors_memory_mb: int = setting(
        0, "MiB of vectors in memory per process, the rest in a file; 0: no limit.", ge=0
    )
    time_travel_enabled: bool = setting(True, "Serve `as_of`; off: 501.")
    time_travel_allow_fact_query_as_of: bool = setting(
        True, "`GET /v1/facts` takes `as_of`; off: 403."
    )
    time_travel_allow_recall_as_of: bool = setting(True, "Recall takes `as_of`; off: 403.")
    as_of_retention_days: float = setting(
        0.0, "Days back that `as_of` may go; 0: all.", ge=0, le=36_500
    )
    fork_events_max: int = setting(
        200_000, "Last position that may be [forked](time-travel.md#what-if).", ge=0, le=10_000_000
    )
    audit_sql_timeout_s: float = setting(10.0, "Longest audit statement.", gt=0, le=600)
    federation_enabled: bool = setting(False, "The node has peers.")
    federation_insecure: bool = setting(False, "Allow peers plain http and private addresses.")
    federation_pull_interval_s: float = setting(
        30.0, "Pause between the protocol's pulls.", gt=0, le=86_400
    )
    federation_push_enabled: bool = setting(False, "Peers may push facts; off: 405.")
    federation_allow_team: bool = setting(False, "Exchange `team` facts too; `local` never.")
    replica_of: str = setting("", "URL of the primary; this node is its replica.")
    replica_key: str = setting("", "Key for the primary, with permission `replicate`.", repr=False)
    replica_snapshot: bool = setting(True, "A new replica starts from a snapshot.")
    snapshots_every_events: int = setting(
        0, "Events between snapshots; 0: never.", ge=0, le=1_000_000_000
    )
    snapshots_keep: int = setting(2, "Automatic snapshots to keep.", ge=1, le=1_000)
    consolidation_enabled: bool = setting(True, "Consolidation rules run on their cadence.")
    summaries_dir: str = setting("", "Folder of Markdown summaries to follow.")
    summaries_owner: str = setting(
        "system:summaries", "Source of their paragraphs.", min_length=1, max_length=2048
    )
    summaries_scope: Scope = setting("local", "Scope of their paragraphs.")
    subscriptions_max: int = setting(100, "Subscriptions per caller.", ge=0, le=100_000)
    webhooks_allow_private: bool = setting(False, "Webhooks may use private networks and http.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least severe level on stderr."
    )
    log_format: Literal["auto", "text", "json"] = setting(
        "auto", "`text`, `json`, or `auto`: text on a terminal."
    )
    access_log: bool = setting(False, "One line on stderr per request.")

    @field_validator("node_url", "embed_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not re.match(r"^https?://[^\s/]+", url):
            raise ValueError("must be an http:// or https:// URL")
        return url.rstrip().rstrip("/")

    @field_validator("log")
    @classmethod
    def _without_line_end(cls, url: str) -> str:
        return url.strip()  # of the file that it may be in, with its password

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
