"""An import gives its facts vectors before it ends, if that takes seconds."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.cli.main import main
from engramlog.projections.embedding.worker import EmbeddingWorker
from engramlog.projections.image.view import View
from tests.worlds.processes import engramlog, fact, serving
from tests.worlds.provider_double import DIMENSIONS
from tests.worlds.provider_servers import Server
from tests.worlds.provider_servers import serving as serving_provider
from tests.worlds.word_vectors import words_api

FACTS = "".join(json.dumps(fact(number)) + "\n" for number in range(3)).encode()


def environment_for(url: str) -> dict[str, str]:
    return {
        "STIGMEM_EMBED_ENABLED": "true",
        "STIGMEM_EMBED_PROVIDER": "ollama",
        "STIGMEM_EMBED_MODEL": "words",
        "STIGMEM_EMBED_DIMENSIONS": str(DIMENSIONS),
        "STIGMEM_EMBED_URL": url,
    }


@pytest.fixture
def ollama() -> Iterator[Server]:
    with serving_provider(words_api) as server:
        yield server


@pytest.mark.parametrize("options", [(), ("--clock-from-file",)])
def test_facts_have_vectors_when_the_import_ends(
    tmp_path: Path, ollama: Server, options: tuple[str, ...]
) -> None:
    data, env = tmp_path / "data", environment_for(ollama.url)
    dated = b"".join(
        json.dumps({**fact(number), "recorded_at": f"2020-01-0{number}T00:00:00Z"}).encode() + b"\n"
        for number in (1, 2, 3)
    )
    done = engramlog("import", "-", "--data", data, *options, stdin=dated, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    status = engramlog("embeddings", "status", "--data", data, "--json", env=env)
    found = json.loads(status.stdout)
    assert (found["model"], found["vectors"], found["waiting"]) == ("words", 3, 0)


def test_what_an_import_pins_has_the_time_of_the_file(tmp_path: Path, ollama: Server) -> None:
    """So that an import of the file's later lines keeps their times too."""
    data, env = tmp_path / "data", environment_for(ollama.url)
    lines = [
        json.dumps({**fact(number), "recorded_at": f"2020-01-0{number}T00:00:00Z"}) + "\n"
        for number in (1, 2, 3)
    ]
    for known in (0, 2):
        again = ("--clock-from-file", "--skip", str(known))
        file = "".join(lines[: known + 2]).encode()
        done = engramlog("import", "-", "--data", data, *again, stdin=file, env=env)
        assert (done.returncode, done.stderr) == (0, "")
    exported = engramlog("export", "--data", data).stdout.splitlines()
    stated = [line for line in map(json.loads, exported) if line["op"] == "assert"]
    assert [line["recorded_at"][:9] for line in stated] == 3 * ["2020-01-0"]


def test_a_provider_that_is_away_leaves_the_facts_stored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = environment_for("http://127.0.0.1:9")
    done = engramlog("import", "-", "--data", data, stdin=FACTS, env=env)
    assert done.returncode == 0
    assert "3 asserted" in done.stdout
    assert "cannot embed the facts: " in done.stderr
    assert f"engramlog embeddings reindex --data {data}" in done.stderr
    assert engramlog("export", "--data", data).stdout.count('"op":"assert"') == 3


def test_a_repeated_import_embeds_what_a_stopped_one_left(tmp_path: Path, ollama: Server) -> None:
    data, env = tmp_path / "data", environment_for(ollama.url)
    engramlog("import", "-", "--data", data, stdin=FACTS, env={"STIGMEM_EMBED_ENABLED": "false"})
    again = engramlog("import", "-", "--data", data, stdin=FACTS, env=env)
    assert "3 existing" in again.stdout
    status = engramlog("embeddings", "status", "--data", data, "--json", env=env)
    assert json.loads(status.stdout)["vectors"] == 3


def test_facts_of_deltas_get_their_vectors_too(tmp_path: Path, ollama: Server) -> None:
    data, env = tmp_path / "data", environment_for(ollama.url)
    delta = {"delta_id": "d", "kind": "add", "user": "bo", "agent": "rag", "rule_id": "r"}
    delta |= {"promotion_ts": "2020-01-05T00:00:00Z", "fact": "one"}
    line = {
        "op": "deltas",
        "scope": "company",
        "deltas": [{**delta, "source_episode_ids": ["e"]}],
        "then": [{"op": "assert", **fact(1), "key": "one"}],
    }
    done = engramlog("import", "-", "--data", data, stdin=json.dumps(line).encode(), env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 applied" in done.stdout
    status = engramlog("embeddings", "status", "--data", data, "--json", env=env)
    assert json.loads(status.stdout)["vectors"] == 1


def test_the_status_counts_the_vectors_that_are_there(
    tmp_path: Path,
    ollama: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Though a node that just opened has not loaded them yet."""
    env = environment_for(ollama.url)
    engramlog("import", "-", "--data", tmp_path / "data", stdin=FACTS, env=env)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    load = EmbeddingWorker._load

    def late(self: EmbeddingWorker, view: View) -> None:
        time.sleep(0.5)
        load(self, view)

    monkeypatch.setattr(EmbeddingWorker, "_load", late)
    main(["embeddings", "status", "--data", str(tmp_path / "data")])
    assert "vectors    3, waiting 0, lag 0\n" in capsys.readouterr().out


def test_many_facts_are_left_to_a_node_that_serves(tmp_path: Path, ollama: Server) -> None:
    data, env = tmp_path / "data", environment_for(ollama.url)
    many = b"".join(json.dumps(fact(number)).encode() + b"\n" for number in range(2_300))
    done = engramlog("import", "-", "--data", data, stdin=many, env=env)
    assert done.returncode == 0
    assert "facts have no vector yet" in done.stderr
    indexed = engramlog("embeddings", "reindex", "--data", data, env=env)
    assert indexed.returncode == 0, indexed.stderr
    assert "2,300 facts indexed" in indexed.stdout


def test_through_a_node_the_import_does_not_wait(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = environment_for("http://127.0.0.1:9")
    with serving(data):
        done = engramlog("import", "-", "--data", data, stdin=FACTS, env=env)
    assert (done.returncode, done.stderr) == (0, "")
