"""The facts that a node shows."""

from engramlog.api.client.client import Client


def texts(client: Client) -> set[str]:
    found: set[str] = set()
    cursor = None
    while True:
        page = client.get("/v1/facts", {"limit": 500, "cursor": cursor, "include_low_trust": True,
                                        "include_contradicted": True})  # fmt: skip
        found |= {str(each["value"].get("v")) for each in page["facts"]}
        cursor = page.get("cursor")
        if cursor is None or not page["facts"]:
            return found
