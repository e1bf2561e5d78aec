"""The page at /ui in a real browser: what it shows, and what it lets nobody do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.live import CONTROL_TOKEN, LiveNode
from tests.system.browser import BROWSER, Page, browsing

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")

ALICE = "stigmem://t.example/user/alice"
AGENT = "stigmem://t/agent/a"
BOB = "stigmem://t.example/user/bob"
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    "</pre><a href=\"javascript:document.title='owned'\">click</a>"
)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveNode]:
    node = LiveNode(tmp_path / "data", auth_required=True)
    yield node
    node.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browsing(tmp_path / "browser") as opened:
        yield opened


def sign_in(page: Page, key: str) -> None:
    page.fill("#key", key)
    page.click("#key-form button")
    page.until("document.querySelector('#caller').innerText.includes('may')")


def rows(page: Page, place: str) -> list[list[str]]:
    script = (
        f"Array.from(document.querySelectorAll('{place} tbody tr'),"
        " row => Array.from(row.cells, cell => cell.innerText))"
    )
    return page.ask(script)


def view(page: Page, hash_: str, done: str) -> None:
    page.ask("document.querySelector('#status').innerText = ''")
    page.ask(f"location.hash = '{hash_}'")
    page.until(f"document.querySelector('#status').innerText.includes({done!r})")


def test_the_page_shows_facts_recalls_cards_conflicts_and_timelines(
    live: LiveNode, page: Page
) -> None:
    key = live.mint("read", "write", entity=AGENT)
    first = live.state(v="chief of tea", key=key)
    live.state(entity=BOB, relation="rel:knows", type="ref", v=ALICE, key=key)
    live.state(v="keeper of the ledger", key=key)
    page.open(f"{live.url}/ui")
    page.until("document.querySelector('#status').innerText.includes('401')")
    assert page.text("#caller") == "This node asks for a key."
    sign_in(page, key)
    page.until("document.querySelectorAll('#search-out tbody tr').length === 3")
    shown = rows(page, "#search-out")
    assert {(row[0], row[1]) for row in shown} == {(ALICE, "memory:role"), (BOB, "rel:knows")}
    assert {row[2] for row in shown} == {
        "chief of tea (contradicted)", "keeper of the ledger (contradicted)", ALICE,
    }  # fmt: skip

    page.ask("location.hash = '#recall'")
    page.fill("#recall-form [name=query]", "who keeps the ledger")
    page.click("#recall-form button")
    page.until("document.querySelectorAll('#recall-out tbody tr').length > 0")
    assert rows(page, "#recall-out")[0][3] == "keeper of the ledger (contradicted)"

    view(page, f"#entity/{ALICE.replace('/', '%2F')}", "2 facts")
    assert "chief of tea" in page.text("#card")
    assert [row[0] for row in rows(page, "#entity-out .scroll:last-of-type")] == [BOB]

    view(page, "#conflicts", "1 unresolved")
    ((entity, relation, newer, older, _, winner),) = rows(page, "#conflicts-out")
    assert (entity, relation, winner) == (ALICE, "memory:role", "open")
    assert "keeper of the ledger" in newer
    assert "chief of tea" in older

    view(page, f"#timeline/{first['id']}", "1 events")
    assert [row[2] for row in rows(page, "#timeline-out .scroll:nth-of-type(2)")] == [
        "fact asserted"
    ]
    asked_without_key = "Failed to load resource: the server responded with a status of 401"
    assert [line for line in page.said if not line.startswith(asked_without_key)] == []


def test_a_moment_of_the_past_is_looked_at_by_slider_and_by_field(
    live: LiveNode, page: Page
) -> None:
    key = live.mint("read", "write", entity=AGENT)
    first = live.state(v="before", key=key)
    live.state(v="after", key=key)
    page.open(f"{live.url}/ui")
    sign_in(page, key)
    page.until("document.querySelectorAll('#search-out tbody tr').length === 2")
    head = live.node.log.head().position
    assert page.ask("document.querySelector('#slider').max") == str(head)
    move = f"(slider => {{ slider.value = {first['position']};"
    move += " slider.dispatchEvent(new Event('input')); slider.dispatchEvent(new Event('change'));"
    page.ask(f"{move} }})(document.querySelector('#slider'))")
    page.until("document.querySelectorAll('#search-out tbody tr').length === 1")
    assert rows(page, "#search-out")[0][2] == "before"
    assert page.ask("document.querySelector('#as-of').value") == f"position:{first['position']}"
    page.click("#now")
    page.until("document.querySelectorAll('#search-out tbody tr').length === 2")
    page.fill("#as-of", "not a moment")
    page.click("#moment-form button")
    page.until("document.querySelector('#status').className === 'bad'")
    assert page.text("#status").startswith("400: ")


def test_what_a_fact_says_is_text_and_never_markup(live: LiveNode, page: Page) -> None:
    key = live.mint("read", "write", entity=AGENT)
    hostile = live.state(v=HOSTILE, key=key, relation="memory:<b>x</b>", entity=ALICE)
    live.state(v="other", key=key, relation="memory:<b>x</b>", entity=ALICE)
    page.open(f"{live.url}/ui")
    sign_in(page, key)
    page.until("document.querySelectorAll('#search-out tbody tr').length === 2")
    view(page, f"#entity/{ALICE.replace('/', '%2F')}", "2 facts")
    view(page, "#conflicts", "1 unresolved")
    view(page, f"#timeline/{hostile['id']}", "1 events")
    page.ask("location.hash = '#recall'")
    page.fill("#recall-form [name=query]", "owned script document title")
    page.click("#recall-form button")
    page.until("document.querySelectorAll('#recall-out tbody tr').length > 0")
    for place in ("#search-out", "#entity-out", "#conflicts-out", "#timeline-out", "#recall-out"):
        assert "onerror" in page.ask(f"document.querySelector('{place}').textContent"), place
    assert page.ask("document.querySelectorAll('img, a[href^=javascript], main b').length") == 0
    assert page.ask("document.querySelectorAll('script').length") == 1
    assert page.ask("document.title") == "engramlog"


def test_the_policy_stops_what_is_not_the_pages_own(live: LiveNode, page: Page) -> None:
    answer = httpx.get(f"{live.url}/ui")
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert re.findall(r"(\S+) 'none'", policy) == [
        "default-src", "base-uri", "form-action", "frame-ancestors", "trusted-types",
    ]  # fmt: skip
    assert "http" not in answer.text.replace("http-equiv", "")
    page.open(f"{live.url}/ui")
    page.until("document.querySelector('#status').innerText.includes('401')")
    inserted = (
        "(() => { const tag = document.createElement('script');"
        " try { tag.text = \"document.title = 'owned'\"; } catch { return 'refused'; }"
        " document.body.append(tag); return document.title; })()"
    )
    assert page.ask(inserted) == "refused"
    written = (
        "(() => { try { document.body.innerHTML = '<b>x</b>'; } catch { return 'refused'; } })()"
    )
    assert page.ask(written) == "refused"
    elsewhere = "fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')"
    assert page.ask(elsewhere) == "refused"
    assert any("Content Security Policy" in line for line in page.said)


def test_the_key_stays_in_its_tab_and_can_be_forgotten(live: LiveNode, page: Page) -> None:
    key = live.mint("read", entity=AGENT)
    live.state(v="chief of tea", key=CONTROL_TOKEN)
    page.open(f"{live.url}/ui")
    sign_in(page, key)
    kept = "[sessionStorage.getItem('engramlog.key'), localStorage.length, document.cookie]"
    assert page.ask(kept) == [key, 0, ""]
    assert page.ask("document.querySelector('#key').value") == ""
    assert key not in page.ask("document.documentElement.outerHTML + location.href")
    page.click("#forget")
    page.until("document.querySelector('#caller').innerText.includes('asks for a key')")
    assert page.ask("sessionStorage.length") == 0
    assert "chief" not in page.ask("document.body.innerText")


def test_every_field_has_a_name_and_every_table_its_heads(live: LiveNode, page: Page) -> None:
    key = live.mint("read", "write", entity=AGENT)
    live.state(key=key)
    page.open(f"{live.url}/ui")
    sign_in(page, key)
    page.until("document.querySelectorAll('#search-out tbody tr').length === 1")
    nameless = (
        "Array.from(document.querySelectorAll('input, select'))"
        ".filter(each => each.labels.length === 0).length"
    )
    assert page.ask(nameless) == 0
    assert page.ask("document.documentElement.lang") == "en"
    assert page.ask("document.querySelectorAll('main, header, nav[aria-label], h1').length") == 4
    heads = "Array.from(document.querySelectorAll('th')).every(each => each.scope === 'col')"
    assert page.ask(heads) is True
    assert page.ask("document.querySelectorAll('table:not(:has(caption))').length") == 0
    assert page.ask("document.querySelector('[aria-current=page]').innerText") == "Search"
    assert page.ask("document.querySelector('#status').getAttribute('role')") == "status"


@pytest.mark.parametrize("width", [700, 1200])
def test_the_pages_fit_their_window_and_short_words_stand_in_one_line(
    live: LiveNode, page: Page, width: int
) -> None:
    key = live.mint("read", "write", entity=AGENT)
    for n in range(3):
        live.state(entity=f"stigmem://a-long-authority.example/mission/number-{n}", key=key)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.send("Emulation.setDeviceMetricsOverride", **size)
    page.open(f"{live.url}/ui")
    sign_in(page, key)
    page.until("document.querySelectorAll('#search-out tbody tr').length === 3")
    lines = (
        "Array.from(document.querySelectorAll('#search-out th, #search-out td.short:nth-child(5)'),"
        " (cell) => { const text = document.createRange(); text.selectNodeContents(cell);"
        " return text.getClientRects().length; })"
    )
    assert set(page.ask(lines)) == {1}
    for path in ("/ui", "/docs"):
        page.open(f"{live.url}{path}")
        page.until("document.querySelector('#search-out, #routes table')")
        assert page.ask("document.documentElement.scrollWidth - window.innerWidth") <= 0, path
