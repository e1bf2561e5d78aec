"""``engramlog peer``: nodes that replay each other."""

import argparse
from typing import Any

from engramlog.api.cli.arguments import CommandError
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, as_json, fields_of, says, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import Client, ClientError, path_segment

EXAMPLES = """\
examples:
  engramlog peer declaration --data memory                    what to give to the other operator
  engramlog peer add http://10.0.0.2:8765 --data memory
  engramlog peer approve NODE --fingerprint sha256:… --data memory
  engramlog peer list --data memory
  engramlog peer status NODE --data memory
  engramlog peer compare NODE --data memory
  engramlog peer release NODE --stream STREAM --data memory
  engramlog peer revoke NODE --reason "gone" --data memory
"""
_GRANTS = (
    ("retract-foreign", "its retractions count for facts of others"),
    ("resolve-foreign", "its resolutions count for facts of others"),
    ("erase-foreign", "its erasures count for facts of others"),
    ("instructions", "take its facts that instruct"),
)

PEERS = "/v1/federation/peers"
PEER = f"{PEERS}/{{peer}}"
LIST = Request(
    f"GET {PEERS}",
    table(
        {
            "peer": "peer_id",
            "status": "status",
            "node": "node_id",
            "address": "node_url",
            "offers": lambda each: ",".join(each["allowed_scopes"]),
            "fault": lambda each: each.get("fault") or "-",
        },
        "peers",
        "no peers",
    ),
)


def register(commands: Subcommands) -> None:
    group = commands.group("peer", "manage peers", EXAMPLES)
    declaration = Request("GET /v1/federation/declaration", as_json)
    group.reaching("declaration", "show this node's own declaration", declaration, json=False)
    parser = group.reaching("add", "register another node's declaration", run_add)
    parser.add_argument("node", metavar="URL", help="the other node's address")

    approve = Request(f"POST {PEER}/approve", says("peer {node_id} is active"), fields=_approval)
    parser = _add(group, "approve", "approve a peer by its key's fingerprint", approve)
    parser.add_argument(
        "--fingerprint", required=True, help="as the other operator reads it on that node"
    )
    _add_grants(parser)
    grant = Request(f"PUT {PEER}/grants", says("peer {node_id} has other grants now"))
    _add_grants(_add(group, "grant", "grant a peer more or less", grant))

    group.reaching("list", "list peers", LIST)
    status = Request(f"GET {PEER}", as_json)
    _add(group, "status", "show a peer: grants, streams, evidence", status)
    compare = Request(f"GET {PEER}/compare", _show_compared, fails=_differ)
    _add(group, "compare", "compare both nodes' copies of their streams", compare)
    revoke = Request(f"POST {PEER}/revoke", says("peer {node_id} is {status}"))
    parser = _add(group, "revoke", "end a peering", revoke)
    parser.add_argument("--reason", default="", help="a note for the log")
    release = Request(f"POST {PEER}/release", says("resumed {stream}"))
    parser = _add(group, "release", "replay a held stream again", release)
    parser.add_argument("--stream", required=True, help="the held stream")
    parser.add_argument("--reason", default="", help="a note for the log")


def _add(group: Subcommands, name: str, summary: str, run: Request) -> argparse.ArgumentParser:
    parser = group.reaching(name, summary, run, json=False)
    parser.add_argument("peer", metavar="PEER", help="its id, or its node id")
    return parser


def _add_grants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        metavar="SCOPE",
        help="a scope that it declares; repeatable (default: all)",
    )
    parser.add_argument(
        "--garden", dest="gardens", action="append", default=[], metavar="ID",
        help="a garden it shares; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--wire", choices=("events", "facts"),
        help="exchange streams, or the protocol's pages (default: as the node offers)",
    )  # fmt: skip
    for name, what in (("pull", "pull nothing from it"), ("serve", "serve it nothing")):
        parser.add_argument(f"--no-{name}", dest=name, action="store_false", help=what)
    for name, what in _GRANTS:
        parser.add_argument(f"--{name}", action="store_true", help=what)


def _approval(args: argparse.Namespace) -> dict[str, Any]:
    grants = fields_of(args)
    del grants["peer"]
    return {"pubkey_fingerprint": grants.pop("fingerprint"), "grants": grants}


def run_add(args: argparse.Namespace) -> int:
    """Fetch the other node's declaration and register it here."""
    with Client(args.node) as other:
        declaration = other.get("/v1/federation/declaration")
    shown = declaration.pop("pubkey_fingerprint", None)
    with reach(args) as client:
        answer = client.post(PEERS, declaration)
        rejected = answer["status"] == "rejected"
        why = _why_rejected(client, declaration, answer) if rejected else None
    if args.json:
        print_json(answer)
    if why is not None:
        raise CommandError(f"the declaration was rejected: {why}")
    if not args.json:
        print(f"peer {answer['peer_id']} ({declaration['node_id']}) waits for approval")
        print(f"its key's fingerprint: {shown}")
        approve = f"engramlog peer approve {answer['peer_id']} --fingerprint sha256:…"
        print(f"compare it with the other operator's, then: {approve}")
    return 0


def _why_rejected(client: Client, declaration: dict[str, Any], answer: dict[str, Any]) -> str:
    """The reason for the rejection, which only administrators see. Of a node that was rejected
    for the same reason before, that record is kept, and no new one."""
    for peer in (answer["peer_id"], declaration["node_id"]):
        try:
            return str(client.get(f"{PEERS}/{path_segment(peer, safe=':')}")["reason"])
        except ClientError:
            pass
    return str(answer["reason"])


def _show_compared(_: argparse.Namespace, answer: dict[str, Any]) -> None:
    for each in answer["streams"]:
        print(f"{'equal' if each['equal'] else 'DIFFERS'}  {each['stream']}")
    for each in answer["tombstones"]:
        print(f"{'equal' if each['equal'] else 'DIFFERS'}  tombstones of {each['node_id']}")
    if _differ(answer):
        print(f"first difference: {answer['first_difference']}")
    else:
        print(f"{len(answer['streams'])} streams and the tombstones, all equal")


def _differ(answer: dict[str, Any]) -> bool:
    return answer["first_difference"] is not None
