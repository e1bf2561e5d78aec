"""The sources of a node's settings: flags, ``STIGMEM_*`` variables, the TOML file."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engramlog.api.schemas.messages import plain_message
from engramlog.api.settings import PREFIX, Settings

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
"""Variables of the protocol's clients, which share the prefix and which nodes ignore."""

_FLAGS = {"data_dir": "--data"}
"""Flags whose names are not those of their settings."""


class SettingsError(Exception):
    """A setting is not usable; the message names it and its source."""


def load_settings(
    flags: Mapping[str, object],
    *,
    config: Path | None = None,
) -> tuple[Settings, list[str]]:
    """The settings in force, and warnings about unknown variables. ``flags``: values of
    command-line flags; ``None`` means not given. ``config``: the TOML file; by default
    ``engramlog.toml`` of the data directory, if it exists. Raises SettingsError: the file is
    unreadable or has an unknown key, or a value is not usable."""
    given = {name: value for name, value in flags.items() if value is not None}
    path = config if config is not None else _default_file(given)
    in_file = {} if path is None else _read_file(path)
    environment = {name.upper(): text for name, text in os.environ.items()}
    named = {name: variable(name) for name in Settings.model_fields}
    stated = {name: environment[each] for name, each in named.items() if each in environment}
    values: dict[str, Any] = {**in_file, **stated, **given}
    try:
        settings = Settings(**values)
    except ValidationError as fault:
        raise SettingsError(_explain(fault, given, path)) from fault
    return settings, unknown_variables(os.environ)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each ``STIGMEM_*`` variable that nodes and clients ignore."""
    known = {variable(name) for name in Settings.model_fields} | CLIENT_VARIABLES
    return [
        f"{name} is not a setting and is ignored{_suggest(name, known)}"
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known
    ]


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + field.upper()


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
    """A hint at the known name that is most similar, ignoring their prefix."""
    bare = {each.removeprefix(PREFIX): each for each in known}
    close = difflib.get_close_matches(name.removeprefix(PREFIX), bare, n=1, cutoff=0.7)
    return f"; did you mean {bare[close[0]]}?" if close else ""


def _explain(fault: ValidationError, given: Mapping[str, object], path: Path | None) -> str:
    lines: list[str] = []
    for error in fault.errors():
        name = str(error["loc"][0])
        if name in given:
            origin = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        elif variable(name) in os.environ:
            origin = variable(name)
        else:
            origin = f"{path}: {name}"
        message = plain_message(error["type"], error.get("ctx") or {}, error["msg"])
        lines.append(f"{origin}: {message} (got {error['input']!r})")
    return "; ".join(lines)
