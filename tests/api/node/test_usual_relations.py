"""Declarations of a new node at its first start; an existing log keeps its meaning."""

from pathlib import Path

from engramlog.api.cli.opening import open_node
from engramlog.api.settings import Settings
from engramlog.projections.tables.declared.policies import USUAL_RELATIONS, set_valued_relations

DOCS = Path(__file__).resolve().parents[3] / "docs" / "ending-facts.md"


def declared(settings: Settings, *, imports: bool = False) -> list[str]:
    node = open_node(settings, imports=imports)
    found = node.reader.ask(set_valued_relations, node.log.head().position)
    node.close()
    return found


def test_a_new_node_declares_the_usual_relations_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "new")
    assert declared(settings) == sorted(USUAL_RELATIONS)
    assert {"likes", "memory:speaks", "memory:works-with"} < set(USUAL_RELATIONS)
    assert declared(settings) == sorted(USUAL_RELATIONS)


def test_an_existing_or_imported_log_keeps_its_meaning(tmp_path: Path) -> None:
    old = Settings(data_dir=tmp_path / "old", set_valued_defaults=False)
    assert declared(old) == []
    assert declared(Settings(data_dir=tmp_path / "old")) == []
    assert declared(Settings(data_dir=tmp_path / "import"), imports=True) == []


def test_the_docs_list_them() -> None:
    listed = DOCS.read_text().partition("STIGMEM_SET_VALUED_DEFAULTS=false")[2]
    names = {name.strip().rstrip(".") for name in listed.split("\n\n")[1].split(",")}
    assert {name.replace("_", "-") for name in names} == {
        name.replace("_", "-") for name in USUAL_RELATIONS if ":" not in name
    }
