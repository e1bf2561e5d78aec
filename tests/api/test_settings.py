"""Settings: which source wins, refusals, and the docs' list."""

from pathlib import Path
from typing import Any

import pytest

from engramlog.api.settings import Settings
from engramlog.api.settings_sources import (
    SettingsError,
    load_settings,
    unknown_variables,
    variable,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

SUBJECTS = {
    "data_dir": "Log",
    "host": "Access",
    "connections_max": "Limits",
    "set_valued_relations": "Facts and recall",
    "embed_enabled": "Embeddings",
    "time_travel_enabled": "The past",
    "federation_enabled": "Other nodes",
    "snapshots_every_events": "Background work",
    "log_level": "Messages",
}
"""The headings of ``docs/settings.md``, by the first setting below each."""


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(variable(name), raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_docs_page_holds_the_table_of_all_settings() -> None:
    assert _table() in PAGE.read_text(), f"put this table into {PAGE.name}:\n{_table()}"


def _table() -> str:
    """Every setting in Markdown tables by subject."""
    rows: list[str] = []
    for name, field in Settings.model_fields.items():
        if name in SUBJECTS:
            rows += ["", f"### {SUBJECTS[name]}", ""]
            rows += ["| variable | default | meaning |", "|---|---|---|"]
        default: Any = field.default
        shown = "" if default is None else f"`{_toml(default)}`"
        rows.append(f"| `{variable(name)}` | {shown} | {field.description} |")
    return "\n".join(rows[1:])


def _toml(value: Any) -> str:
    """A default in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_description(name: str) -> None:
    assert Settings.model_fields[name].description


def test_a_flag_beats_the_environment_and_that_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "node.toml"
    file.write_text("port = 1\ncursor_ttl_s = 2\nvalue_bytes_max = 3\n")
    monkeypatch.setenv("STIGMEM_PORT", "4")
    monkeypatch.setenv("STIGMEM_CURSOR_TTL_S", "5")
    settings, _ = load_settings({"port": 6, "host": None}, config=file)
    assert (settings.port, settings.cursor_ttl_s, settings.value_bytes_max) == (6, 5, 3)
    assert settings.host == "127.0.0.1"


def test_a_variable_counts_in_lower_case_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "node.toml"
    file.write_text("port = 1\n")
    monkeypatch.setenv("stigmem_port", "2")
    assert load_settings({}, config=file)[0].port == 2


def test_the_directorys_file_applies_unless_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "engramlog.toml").write_text("port = 7\n")
    assert load_settings({"data_dir": tmp_path})[0].port == 7
    other = tmp_path / "other.toml"
    other.write_text("")
    assert load_settings({"data_dir": tmp_path}, config=other)[0].port == 8765


def test_lists_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_SET_VALUED_RELATIONS", "congress:*, said,,")
    assert load_settings({})[0].set_valued_relations == ("congress:*", "said")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("STIGMEM_PORT", "99999", "STIGMEM_PORT: must be at most 65535"),
        ("STIGMEM_AUTH_REQUIRED", "perhaps", "STIGMEM_AUTH_REQUIRED: must be true or false"),
        ("STIGMEM_NODE_URL", "memory", "STIGMEM_NODE_URL: must be an http:// or https:// URL"),
        ("STIGMEM_SET_VALUED_RELATIONS", "a*b", "'a*b' is not a relation label"),
        ("STIGMEM_LOG_LEVEL", "loud", "STIGMEM_LOG_LEVEL: must be 'debug'"),
        ("STIGMEM_DATA_DIR", "", "STIGMEM_DATA_DIR: must not be empty"),
        ("STIGMEM_CORS_ALLOWED_ORIGINS", "*", "'*' is not an origin"),
        ("STIGMEM_CORS_ALLOWED_ORIGINS", "a.example", "'a.example' is not an origin"),
        ("STIGMEM_ALLOWED_HOSTS", "http://a", "'http://a' is not a host name"),
        ("STIGMEM_ALLOWED_HOSTS", "a:80", "'a:80' is not a host name"),
    ],
)
def test_a_bad_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load_settings({})
    assert message in str(refused.value)
    assert repr(value) in str(refused.value) or "a*b" in str(refused.value)


def test_good_origins_and_hosts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_CORS_ALLOWED_ORIGINS", "https://a.example/,app://notes,null")
    monkeypatch.setenv("STIGMEM_ALLOWED_HOSTS", "memory,10.0.0.1,fd00::1")
    settings = load_settings({})[0]
    assert settings.cors_allowed_origins == ("https://a.example/", "app://notes", "null")
    assert settings.allowed_hosts == ("memory", "10.0.0.1", "fd00::1")


def test_an_empty_number_of_workers_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STIGMEM_RECALL_WORKERS", "")
    assert load_settings({})[0].recall_workers is None


def test_a_bad_flag_and_a_bad_key_of_the_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^--port: "):
        load_settings({"port": -1})
    with pytest.raises(SettingsError, match=r"^--data: must not be empty"):
        load_settings({"data_dir": ""})
    file = tmp_path / "node.toml"
    file.write_text("port = -1\n")
    with pytest.raises(SettingsError, match=r"node\.toml: port: "):
        load_settings({}, config=file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown setting 'prot'; did you mean port"),
        ("port 1", "is not TOML"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_settings({}, config=file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*no\.toml: No such file"):
        load_settings({}, config=tmp_path / "no.toml")


def test_unknown_variables_cause_warnings_with_the_likely_name() -> None:
    environ = {"STIGMEM_PROT": "1", "STIGMEM_URL": "x", "STIGMEM_ZEBRA": "2", "PATH": ""}
    assert unknown_variables(environ) == [
        "STIGMEM_PROT is not a setting and is ignored; did you mean STIGMEM_PORT?",
        "STIGMEM_ZEBRA is not a setting and is ignored",
    ]


def test_the_public_url_follows_the_address() -> None:
    assert Settings(host="::1", port=9).public_url == "http://[::1]:9"
    assert Settings(node_url="https://a.example/").public_url == "https://a.example"


def test_an_address_may_end_with_the_line_of_its_file() -> None:
    assert Settings(log="postgresql://node@h/db\n").log == "postgresql://node@h/db"
    assert Settings(embed_url="https://a.example/v1/\r\n").embed_url == "https://a.example/v1"
