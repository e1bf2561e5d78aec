"""Facts are text: none runs in the page, fetches anything, or disguises itself. More than sixty
facts try, in every view that shows facts."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.api.console.browser import Console
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact

Visit = Callable[..., Console]
OWN = "document.title='owned'"
EVENTS = ("onerror", "onload", "onclick", "onfocus", "ontoggle", "onanimationstart", "onbegin")
MARKUP = (
    f"<script>{OWN}</script>",
    f"</script><script>{OWN}</script>",
    f"</pre></bdi></div><script>{OWN}</script>",
    *(f'<img src=x {event}="{OWN}">' for event in EVENTS),
    f'<svg onload="{OWN}"></svg>',
    f'<svg><animate onbegin="{OWN}" attributeName=x dur=1s></svg>',
    f'<details open ontoggle="{OWN}">',
    f'<input autofocus onfocus="{OWN}">',
    f'<iframe srcdoc="<script>parent.{OWN}</script>"></iframe>',
    '<iframe src="javascript:alert(1)"></iframe>',
    '<object data="javascript:alert(1)"></object>',
    '<embed src="http://evil.example/x.swf">',
    '<link rel=stylesheet href="http://evil.example/x.css">',
    "<style>*{background:url(http://evil.example/x)}</style>",
    '<meta http-equiv=refresh content="0;url=http://evil.example/">',
    '<base href="http://evil.example/">',
    '<img src="http://evil.example/beacon.png">',
    '<video poster="http://evil.example/p.png"><source src="http://evil.example/v"></video>',
    '<form action="http://evil.example/"><button>send</button></form>',
    '<a href="javascript:document.title=1">click</a>',
    f'<math><mtext></mtext><mglyph><style><img src=x onerror="{OWN}">',
    f'<template shadowrootmode=open><img src=x onerror="{OWN}"></template>',
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "__proto__",
    '{"__html":"<b>x</b>","dangerouslySetInnerHTML":{"__html":"<img src=x>"}}',
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
)
LINKS = (
    "javascript:document.title='owned'",
    "JaVaScRiPt:document.title='owned'",
    "java\nscript:document.title='owned'",
    " javascript:document.title='owned'",
    "vbscript:msgbox(1)",
    "data:text/html,<script>document.title='owned'</script>",
    "blob:http://evil.example/1",
    "http://evil.example/phish",
    "//evil.example/x",
    "file:///etc/passwd",
)
UNSEEN = (
    "safe \u202egnp.exe",
    "\u2066isolated\u2069",
    "zero\u200bwidth\u200djoined\ufeff",
    "\u061cletter mark",
    "soft\u00adhyphen",
    "line\u2028separator\u2029",
    "bell\u0007 escape\u001b[31m",
    "tag \U000e0041\U000e0042",
    "variation\ufe0e selector",
    "\u3164 filler",
)
LARGE = ("A" * 250_000, "<b>" * 20_000, "\n" * 5_000 + "end", "\u0301" * 2_000)
REFS = (
    "javascript:alert(1)//x",
    "stigmem://t.example/user/аlice",
    "stigmem://t.example/user/a\u200blice",
    "stigmem://t.example/user/<img-src=x-onerror=alert(1)>",
    "stigmem://t.example/user/alice?x=1#y",
    "stigmem://t.example/user/../../admin",
    "stigmem://t-example/user/alice",
)
ENTITIES = (
    "javascript:alert(1)",
    "stigmem://t.example/user/аlice",
    'stigmem://t.example/user/"><script>alert(1)</script>',
    "stigmem://t.example/user/\u202eecila",
)
SAID = (*MARKUP, *LINKS, *UNSEEN, *LARGE)
TOLD = "stigmem://t.example/user/alice"
NAME = "memory:<b onmouseover=alert(1)>x</b>"


def test_at_least_sixty_facts_try() -> None:
    assert len({*SAID, *REFS, *ENTITIES}) >= 60


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node with only hostile facts; read only."""
    live = LiveNode(tmp_path_factory.mktemp("hostile") / "data", auth_required=True)
    items = [fact(entity=TOLD, relation=f"tag:n{n}", v=text) for n, text in enumerate(SAID)]
    items += [fact(entity=TOLD, relation="rel:to", type="ref", v=ref) for ref in REFS]
    items += [fact(entity=entity, v="here") for entity in ENTITIES]
    items += [fact(entity=TOLD, relation=NAME, v=text) for text in MARKUP[:2]]
    items += [fact(entity=TOLD, source="javascript:alert(1)", relation="memory:by")]
    options = {"key": CONTROL_TOKEN}
    live.call("PUT", "/v1/relations/set-valued", json={"relations": ["rel:to"]}, **options)
    results = live.call("POST", "/v1/facts/batch", json=items, **options).json()["results"]
    refused = [result for result in results if result["status"] >= 400]
    assert len(results) - len(refused) >= 60, refused
    alias = {"raw_uri": "user:<img-src=x-onerror=alert(1)>", "canonical_uri": TOLD}
    live.call("POST", "/v1/aliases", json=alias, **options)
    question = {"query": "<script>alert(1)</script> owned", "scope": "company"}
    live.call("POST", "/v1/recall", json=question, **options)
    yield live
    live.close()


def facts_ids(live: LiveNode) -> list[str]:
    page = live.call("GET", "/v1/facts", key=CONTROL_TOKEN, params={"limit": 500}).json()
    return [each["id"] for each in page["facts"]]


def test_no_fact_runs_or_is_fetched(hostile: LiveNode, visit: Visit) -> None:
    tab = visit(hostile, fresh=True)
    tab.page.on("dialog", lambda dialog: tab.faults.append(f"dialog: {dialog.message}"))
    conflict = facts_ids(hostile)[-1]
    views = [
        ("search", {}), ("search", {"q": "script"}), ("search", {"q": "alert"}),
        ("entity", {"name": TOLD}), *(("entity", {"name": each}) for each in ENTITIES),
        ("entity", {"name": "javascript:alert(1)//<img src=x onerror=alert(1)>"}),
        ("fact", {"id": conflict}), ("fact", {"id": "<img src=x onerror=alert(1)>"}),
        ("graph", {}), ("graph", {"from": TOLD}), ("time", {"since": "position:1"}),
        ("recall", {"q": "<script>alert(1)</script> owned onerror"}),
        ("log", {}), ("log", {"event": "9"}), ("log", {"kind": "<b>x</b>"}), ("review", {}),
        ("sql", {"sql": "SELECT value, entity, detail FROM events"}), ("operations", {}),
        ("<script>alert(1)</script>", {}), ("search", {"at": "<img src=x onerror=alert(1)>"}),
    ]  # fmt: skip
    seen = ""
    tab.open()
    for view, params in views:
        page = tab.go(view, **params)
        seen += page.inner_text("#content")
        assert page.title().endswith("· engramlog"), (view, params, page.title())
        assert page.locator("#content :is(img, iframe, object, embed, link, style)").count() == 0
        links = page.eval_on_selector_all("a[href]", "links => links.map(link => link.protocol)")
        assert set(links) <= {"http:"}, (view, params, set(links))
        away = page.eval_on_selector_all("a[href]", "links => links.map(link => link.origin)")
        assert set(away) == {hostile.url}, (view, params, set(away))
        assert page.locator("script").count() == 1
    assert tab.elsewhere() == []
    assert tab.faults == []
    assert "onerror" in seen
    assert "javascript:" in seen


def test_invisible_characters_are_shown_by_number(hostile: LiveNode, visit: Visit) -> None:
    page = visit(hostile).open("entity", name=TOLD)
    text = page.inner_text("#content")
    for shown in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+2066⟩", "⟨U+00AD⟩", "⟨U+001B⟩", "⟨U+E0041⟩"):
        assert shown in text, shown
    for unseen in "\u202e\u200b\u2066\u00ad\u001b\u2028":
        assert unseen not in text, hex(ord(unseen))


def test_a_name_that_looks_like_another_says_so(hostile: LiveNode, visit: Visit) -> None:
    tab = visit(hostile)
    page = tab.open("entity", name="stigmem://t.example/user/аlice")
    expect(page.locator(".view-head")).to_contain_text("look-alike")
    page = tab.open("entity", name=TOLD)
    expect(page.locator(".view-head")).not_to_contain_text("look-alike")
    expect(page.locator(".odd").first).to_contain_text("look-alike")


def test_a_large_value_is_cut_and_opened_on_demand(hostile: LiveNode, visit: Visit) -> None:
    page = visit(hostile).open("entity", name=TOLD)
    assert len(page.content()) < 800_000
    page.get_by_role("button", name="all 244 KiB").click()
    expect(page.locator("#content")).to_contain_text("(the first 20,000 characters)")


def test_other_sites_have_no_rights_here(live: LiveNode) -> None:
    """The page uses no cookies, so only a key counts; and no other site may read."""
    answer = live.call("GET", "/ui")
    assert "Set-Cookie" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert live.call("POST", "/v1/facts", json=fact()).status_code == 401
