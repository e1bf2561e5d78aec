"""Pictures of every view at every size, light and dark, for a person to look through.

Run it with ``make screenshots``.
"""

import sys
import tempfile
from pathlib import Path

from engramlog.api.cli.node.demo import load
from tests.api.console.browser import BROWSER, BUILT, ROOT, SIZES, chromium, console
from tests.worlds.live import CONTROL_TOKEN, LiveNode

FOLDER = ROOT / "screenshots"
SPACE = "stigmem://spaceflight.example"
QUESTION = "How many moons of Saturn are known?"
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "home": ("search", {}),
    "past": ("search", {"at": "1969-07-21T00:00:00Z"}),
    "search": ("search", {"q": "saturn"}),
    "entity": ("entity", {"name": f"{SPACE}/body/pluto"}),
    "fact": ("entity", {"name": f"{SPACE}/body/pluto"}),
    "graph": ("graph", {}),
    "graph-from": ("graph", {"from": f"{SPACE}/body/moon"}),
    "time": ("time", {"since": "2005-01-01T00:00:00Z", "at": "2007-01-01T00:00:00Z"}),
    "recall": ("recall", {"q": QUESTION}),
    "recall-compared": ("recall", {"q": QUESTION, "when": "1990-01-01T00:00:00Z"}),
    "log": ("log", {}),
    "log-event": ("log", {"event": "5210"}),
    "review": ("review", {}),
    "review-resolved": ("review", {"status": "resolved"}),
    "review-quarantine": ("review", {"tab": "quarantine"}),
    "review-flagged": ("review", {"tab": "flagged"}),
    "review-holds": ("review", {"tab": "holds"}),
    "review-erasures": ("review", {"tab": "erasures"}),
    "peers": ("peers", {}),
    "operations": ("operations", {}),
    "sql": ("sql", {"sql": "SELECT kind, count(*) AS events FROM events GROUP BY 1 ORDER BY 2"}),
    "start": ("start", {}),
}
RESTING = "canvas[aria-busy=true]"
"""A graph before it rests."""
INNER = {"fact": ".stated .fact-foot a"}
"""What to click for a view that an address cannot name beforehand."""


def main() -> int:
    """Write the pictures; say why where that is not possible."""
    if BROWSER is None or not BUILT.is_file():
        print("needs Chromium (apt-get install chromium) and a built console", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        data = Path(folder) / "data"
        load(data)
        node = LiveNode(data)
        try:
            for size in SIZES:
                for dark in (False, True):
                    with console(browser, node.url, key=CONTROL_TOKEN, size=size, dark=dark) as tab:
                        for name, (view, params) in VIEWS.items():
                            page = tab.open(view, **params)
                            if name in INNER:
                                page.locator(INNER[name]).first.click()
                                tab.settle()
                            page.wait_for_selector(RESTING, state="detached")
                            shade = "dark" if dark else "light"
                            tab.page.screenshot(path=FOLDER / f"{name}-{size}-{shade}.png")
        finally:
            node.close()
    print(f"pictures: {len(list(FOLDER.glob('*.png')))} in {FOLDER.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
