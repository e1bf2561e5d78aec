"""Every setting of a node: its name, default, meaning and where its value comes from.

A value is taken from the first of: command-line flag, ``STIGMEM_*`` environment variable,
TOML file, default. A key of the file that no setting has is an error; a variable that no
setting has is a warning, because other programs share the prefix. ``docs/settings.md``
lists each setting, and a test holds the page to this file.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from projections.embedding.settings import EmbeddingSettings
from projections.normalization import normalize_uri

PREFIX = "STIGMEM_"
FILE_NAME = "engramlog.toml"
CLIENT_VARIABLES = frozenset(
    {
        "STIGMEM_URL",
        "STIGMEM_API_KEY",
        "STIGMEM_SESSION_ID",
        "STIGMEM_POLL_LIMIT",
        "STIGMEM_MCP_MAX_ARGUMENT_BYTES",
    }
)
"""Variables of the protocol's clients, which share the prefix and mean nothing to a node."""

_LABEL = re.compile(r"^[^\s*]*\*?$")


class SettingsError(Exception):
    """A setting cannot be used; the message names it and where its value came from."""


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
    set_valued_relations: Labels = Field(
        default=(),
        description="Relations that may hold several values at once: labels, or globs ending "
        "in `*`, separated by commas. `rel:*` always may.",
    )
    recall_profile: str = Field(
        default="default",
        min_length=1,
        description="Recall profile that answers when none is named.",
    )
    sanitizer_mode: Literal["warn", "block", "quarantine", "off"] = Field(
        default="warn",
        description="What becomes of facts that try to command a model: `warn` serves them with "
        "warnings, `block` without their value and never to recall, `quarantine` only to admins "
        "who review them, `off` as if nothing were the matter.",
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
        description="Processes that answer recalls beside the serving one, once recalls are "
        "frequent; each holds a mirror of its own. Left out: one a core, at most 4, up to "
        "250,000 facts.",
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
    batch_body_bytes_max: int = Field(
        default=67_108_864,
        ge=1024,
        le=1_073_741_824,
        description="Largest body of a batch, in bytes.",
    )
    value_bytes_max: int = Field(
        default=262_144, ge=1, le=4_000_000, description="Largest value of a fact, in UTF-8 bytes."
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
        default=False, description="Whether peers may have plain http addresses."
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
    access_log: bool = Field(
        default=False, description="Whether each request is logged, as one JSON line on stderr."
    )

    @field_validator("node_url", "embed_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not re.match(r"^https?://[^\s/]+", url):
            raise ValueError("must be an http:// or https:// URL")
        return url.rstrip("/")

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
        """The settings whose names begin with ``embed_``."""
        return EmbeddingSettings(
            provider=self.embed_provider if self.embed_enabled else "none",
            model=self.embed_model or None,
            url=self.embed_url or None,
            dimensions=self.embed_dimensions or None,
            truncated_dimensions=self.embed_truncated_dimensions or None,
            min_confidence=self.embed_min_confidence,
        )

    @property
    def public_url(self) -> str:
        """``node_url``, or the URL of the address it listens on."""
        if self.node_url:
            return self.node_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class _File(InitSettingsSource):
    """The values of the TOML file, ranked under the environment."""


def load_settings(
    flags: Mapping[str, object],
    *,
    config: Path | None = None,
) -> tuple[Settings, list[str]]:
    """The settings in force, and warnings about variables nothing reads.

    Args:
        flags: values of command-line flags; ``None`` means not given.
        config: the TOML file; by default ``engramlog.toml`` of the data directory, if there.

    Raises:
        SettingsError: the file cannot be read, holds an unknown key, or a value is unusable.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    path = config if config is not None else _default_file(given)
    in_file = {} if path is None else _read_file(path)

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, _File(settings_cls, in_file)

    try:
        settings = Layered(**given)  # pyright: ignore[reportArgumentType]
    except ValidationError as fault:
        raise SettingsError(_explain(fault, given, path)) from fault
    return settings, unknown_variables(os.environ)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each ``STIGMEM_*`` variable that neither a node nor a client reads."""
    known = {variable(name) for name in Settings.model_fields} | CLIENT_VARIABLES
    return [
        f"{name} is not a setting and is ignored{_suggest(name, known)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known
    ]


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + field.upper()


def settings_table() -> str:
    """Every setting as a Markdown table; ``docs/settings.md`` holds exactly this."""
    rows = ["| setting | variable | default | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default: Any = field.default
        shown = "left out" if default is None else f"`{_toml(default)}`"
        rows.append(f"| `{name}` | `{variable(name)}` | {shown} | {field.description} |")
    return "\n".join(rows)


def _toml(value: Any) -> str:
    """A default as the file would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'


def _default_file(given: Mapping[str, object]) -> Path | None:
    default: object = Settings.model_fields["data_dir"].default
    data = given.get("data_dir") or os.environ.get(variable("data_dir")) or default
    path = Path(str(data)) / FILE_NAME
    return path if path.is_file() else None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise SettingsError(f"cannot read {path}: {fault.strerror or fault}") from fault
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise SettingsError(f"{path} is not TOML: {fault}") from fault
    for name in values:
        if name not in Settings.model_fields:
            known = set(Settings.model_fields)
            raise SettingsError(f"{path}: unknown setting {name!r}{_suggest(name, known)}")
    return values


def _suggest(name: str, known: set[str] | frozenset[str]) -> str:
    """A hint at the known name that is most like this one; their prefix counts for nothing."""
    bare = {each.removeprefix(PREFIX): each for each in known}
    close = difflib.get_close_matches(name.removeprefix(PREFIX), bare, n=1, cutoff=0.7)
    return f"; did you mean {bare[close[0]]}?" if close else ""


def _explain(
    fault: ValidationError,
    given: Mapping[str, object],
    path: Path | None,
) -> str:
    lines: list[str] = []
    for error in fault.errors():
        name = str(error["loc"][0])
        if name in given:
            origin = f"--{name.replace('_', '-')}"
        elif variable(name) in os.environ:
            origin = variable(name)
        else:
            origin = f"{path}: {name}"
        message = error["msg"].removeprefix("Value error, ")
        lines.append(f"{origin}: {message} (got {error['input']!r})")
    return "; ".join(lines)
