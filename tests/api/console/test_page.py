"""The console as a page: its address is its state, and it shows the newest request's answer."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.api.console.browser import Console
from tests.worlds.live import CONTROL_TOKEN, LiveNode

Visit = Callable[..., Console]
PLUTO = "stigmem://spaceflight.example/body/pluto"
AGENT = "stigmem://t/agent/a"
SECONDS = 20


def slide(page: Page, part: float) -> None:
    """Move the slider as a hand does."""
    page.eval_on_selector(
        "#slider",
        "(slider, part) => { slider.value = part * 1000;"
        " slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        part,
    )


def test_search_finds_part_of_a_name_while_typing(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    page = tab.open("log")
    page.keyboard.press("/")
    page.keyboard.type("satur")
    expect(page.locator(".card").first).to_contain_text("saturn")
    page.keyboard.type("n v")
    expect(page.locator(".card")).to_have_count(1)
    assert page.url.endswith("#/search?q=saturn+v")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Saturn V")
    assert tab.faults == []


def test_an_entity_shows_all_scopes_unless_one_is_chosen(live: LiveNode, visit: Visit) -> None:
    key = live.mint("read", "write", entity=AGENT)
    live.state(entity="user:al", relation="memory:role", v="in company", key=key)
    live.state(entity="user:al", relation="memory:mood", v="in public", key=key, scope="public")
    tab = visit(live, key)
    page = tab.open("entity", name="user:al")
    expect(page.locator(".stated-value")).to_have_count(2)
    page.get_by_label("Scope").select_option("public")
    expect(page.locator(".stated-value")).to_have_text(["in public"])
    assert "scope=public" in page.url
    page.locator(".side a", has_text="Graph").click()
    assert "scope=public" in page.url, "the scope goes along"


def test_a_late_answer_never_overwrites_a_newer_one(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight, fresh=True)
    # The test disables aborting: the page itself must know which answer is the newest.
    tab.context.add_init_script("AbortController.prototype.abort = () => undefined")
    page = tab.open()
    now = page.locator(".figures dd").first.inner_text()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/v1/facts.*as_of="), hold)
    slide(page, 0.5)
    expect(page).to_have_url(re.compile("at="))
    page.locator("#now").click()
    expect(page.locator(".moment")).to_have_text("Now")
    assert held
    with page.expect_response(lambda answer: "as_of=" in answer.url and "/v1/facts" in answer.url):
        held[0].continue_()
    tab.settle()
    assert page.locator(".figures dd").first.inner_text() == now
    expect(page.locator("h1")).to_have_text("What is known")
    assert "at=" not in page.url


def test_the_address_is_the_state(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    page = tab.open("entity", name=PLUTO, at="1990-01-01T00:00:00Z", scope="public")
    expect(page.locator(".group", has_text="classification")).to_contain_text("planet")
    before = page.locator("#content").inner_text()
    page.reload()
    tab.settle()
    assert page.locator("#content").inner_text() == before
    expect(page.locator(".moment")).to_have_text("1 Jan 1990")
    page.locator("#now").click()
    expect(page.locator(".group", has_text="classification")).to_contain_text("dwarf planet")
    page.go_back()
    expect(page.locator(".moment")).to_have_text("1 Jan 1990")


@pytest.mark.parametrize(("view", "field"), [("fact", "id"), ("entity", "name")])
def test_an_address_that_names_nothing_says_so_and_leads_to_the_search(
    live: LiveNode, visit: Visit, view: str, field: str
) -> None:
    page = visit(live).open(view)
    expect(page.locator("#content h1")).to_have_text(f"This address names no {view}")
    expect(page.locator("#content")).to_contain_text(f"?{field}=")
    page.locator("#content a").click()
    assert page.url.endswith("#/search")


@pytest.mark.parametrize("view", ["moments", "constructor"])
def test_an_address_of_no_view_says_so_and_leads_to_the_search(
    live: LiveNode, visit: Visit, view: str
) -> None:
    page = visit(live).open(view)
    expect(page.locator("#content h1")).to_have_text("There is no such view")
    expect(page.locator("#content")).to_contain_text(f"{view} is none of those listed")
    expect(page.locator("nav [aria-current]")).to_have_count(0)
    page.locator("#content a").click()
    assert page.url.endswith("#/search")


def test_the_slider_moves_the_whole_page_in_time(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    page = tab.open()
    everything = page.locator(".figures dd").first.inner_text()
    slide(page, 0.2)
    expect(page.locator(".timebar")).to_have_class("timebar past")
    expect(page.locator("h1")).to_have_text("What was known")
    expect(page.locator(".figures dd").first).not_to_have_text(everything)
    page.locator("#slider").focus()
    page.keyboard.press("End")
    expect(page.locator(".moment")).to_have_text("Now")


def test_a_narrow_slider_names_its_ends(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    ends = tab.open().locator(".ticks span").all_inner_texts()[::5]
    tab.resize("phone")
    shown = tab.page.locator(".ticks span:visible")
    expect(shown).to_have_text(ends)
    first, last = (each.bounding_box() for each in shown.all())
    assert first is not None
    assert last is not None
    assert first["x"] + first["width"] < last["x"]


def test_the_log_continues_by_itself(live: LiveNode, visit: Visit) -> None:
    live.state(v="before", key=CONTROL_TOKEN)
    tab = visit(live)
    page = tab.open("log")
    count = page.locator(".event-row").count()
    live.state(v="after", key=CONTROL_TOKEN)
    expect(page.locator(".event-row")).to_have_count(count + 1, timeout=SECONDS * 1000)


def test_an_event_shows_its_chain_and_what_it_changed(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    page = tab.open("log", event="5210")
    detail = page.locator(".event-detail")
    expect(detail).to_contain_text("hashes verified")
    expect(detail.locator(".change-added")).to_have_count(1)
    expect(detail.locator(".effects")).to_contain_text("claims to its value")
    expect(detail.locator(".effects")).to_contain_text("written facts")
    detail.get_by_role("link", name="←").click()
    expect(detail.locator("h2")).to_have_text("Event 5,209")
    assert tab.faults == []


def test_every_view_has_its_json_and_a_link_that_holds(spaceflight: LiveNode, visit: Visit) -> None:
    tab = visit(spaceflight)
    page = tab.open("entity", name=PLUTO)
    page.locator(".machine").click()
    expect(page.locator(".json")).to_contain_text('"total": 13')
    expect(page.locator(".sheet[open] .command")).to_contain_text("curl -s 'http://127.0.0.1")
    assert CONTROL_TOKEN not in page.locator(".sheet[open]").inner_text()
    page.keyboard.press("Escape")
    pinned = page.locator("a.tool", has_text="Link").get_attribute("href")
    assert pinned is not None
    assert "at=position:" in pinned


def test_the_key_stays_in_its_tab_and_can_be_removed(live: LiveNode, visit: Visit) -> None:
    key = live.mint("read", entity=AGENT)
    live.state(v="chief of tea", key=CONTROL_TOKEN)
    tab = visit(live, None)
    page = tab.open()
    expect(page.locator("h1")).to_have_text("This node asks for a key")
    page.locator("#key-open").click()
    page.fill("#key", key)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator(".fact")).to_contain_text(["chief of tea"])
    kept = "[sessionStorage.getItem('engramlog.key'), localStorage.length, document.cookie]"
    assert page.evaluate(kept) == [key, 0, ""]
    assert key not in page.content() + page.url
    page.locator("#key-open").click()
    page.get_by_role("button", name="Forget the key").click()
    expect(page.locator("h1")).to_have_text("This node asks for a key")
    assert page.evaluate("sessionStorage.length") == 0
    assert "chief" not in page.inner_text("body")


def test_a_refused_key_is_said_to_be_so(live: LiveNode, visit: Visit) -> None:
    page = visit(live, None).open()
    for given in ("not-a-key-of-this-node", "schlüssel…"):  # no header takes the second
        page.locator("#key-open").click()
        page.fill("#key", given)
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("h1")).to_have_text("The node refuses this key")
    expect(page.locator("dialog[open]")).to_have_count(1)


def test_a_page_continues_when_its_node_answers_again(live: LiveNode, visit: Visit) -> None:
    live.state(v="chief of tea", key=CONTROL_TOKEN)
    tab = visit(live, fresh=True)
    page = tab.open()
    page.clock.install()
    page.route("**/*", lambda route: route.abort())
    page.clock.run_for(5_000)
    expect(page.get_by_role("alert")).to_contain_text("The node does not answer")
    page.get_by_role("link", name="Peers").click()
    expect(page.locator("#content")).to_contain_text("This view did not load")
    page.get_by_role("link", name="Search").click()
    page.locator(".brand").click()
    page.unroute("**/*")
    page.clock.run_for(5_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".fact")).to_contain_text(["chief of tea"])
    page.get_by_role("link", name="Peers").click()
    expect(page.locator("h1")).to_have_text("Peers")


def test_the_policy_stops_foreign_content(live: LiveNode, visit: Visit) -> None:
    answer = httpx.get(f"{live.url}/ui")
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "trusted-types 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    tab = visit(live, None)
    page = tab.open()
    for attempt in (
        "const tag = document.createElement('script'); tag.text = 'document.title = `x`';",
        "document.body.innerHTML = '<b>x</b>';",
    ):
        refused = f"(() => {{ try {{ {attempt} }} catch {{ return 'refused'; }} }})()"
        assert page.evaluate(refused) == "refused", attempt
    elsewhere = "fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')"
    assert page.evaluate(elsewhere) == "refused"
    inline = (
        "(() => { const tag = document.createElement('style');"
        " tag.textContent = 'h1 { color: red }'; document.head.append(tag);"
        " return getComputedStyle(document.querySelector('h1')).color; })()"
    )
    assert page.evaluate(inline) != "rgb(255, 0, 0)"


@pytest.mark.parametrize("name", ["index.html", "..%2Fdocs.html", ".built", "nothing.js"])
def test_only_built_files_are_served(live: LiveNode, name: str) -> None:
    assert live.call("GET", f"/ui/{name}").status_code == 404


def test_a_node_without_the_console_says_how_to_build_it(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.routes.node.pages._built", dict[str, bytes])
    answer = live.call("GET", "/ui")
    assert answer.status_code == 200
    assert "make setup" in answer.text
