"""``engramlog peer``: nodes that replay each other."""

import argparse
from typing import Any
from urllib.parse import quote

from engramlog.api.client.client import Client, ClientError
from engramlog.api.console.arguments import CommandError, add_target_arguments
from engramlog.api.console.reach import reach
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json, print_table

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


def register(commands: Subcommands) -> None:
    """Add the commands."""
    group = commands.group("peer", "manage peers", EXAMPLES)
    parser = group.add("declaration", "show this node's own declaration", EXAMPLES, run_declaration)
    add_target_arguments(parser)

    parser = group.add("add", "register another node's declaration", EXAMPLES, run_add)
    parser.add_argument("node", metavar="URL", help="the other node's address")
    add_target_arguments(parser, json=True)

    parser = group.add("approve", "approve a peer by its key's fingerprint", EXAMPLES, run_approve)
    _add_peer(parser)
    parser.add_argument(
        "--fingerprint", required=True, help="as the other operator reads it on that node"
    )
    _add_grants(parser)

    parser = group.add("grant", "grant a peer more or less", EXAMPLES, run_grant)
    _add_peer(parser)
    _add_grants(parser)

    parser = group.add("list", "list peers", EXAMPLES, run_list)
    add_target_arguments(parser, json=True)

    for name, what, run in (
        ("status", "show a peer: grants, streams, evidence", run_status),
        (
            "compare",
            "compare both nodes' copies of their streams",
            run_compare,
        ),
        ("revoke", "end a peering", run_revoke),
        ("release", "replay a held stream again", run_release),
    ):
        parser = group.add(name, what, EXAMPLES, run)
        _add_peer(parser)
        if name == "release":
            parser.add_argument("--stream", required=True, help="the held stream")
        if name in ("revoke", "release"):
            parser.add_argument("--reason", default="", help="a note for the log")


def _add_peer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("peer", metavar="PEER", help="its id, or its node id")
    add_target_arguments(parser)


def _add_grants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help="a scope that it declares; repeatable (default: all)",
    )
    parser.add_argument(
        "--garden", action="append", default=[], metavar="ID", help="a garden it shares; repeatable"
    )
    parser.add_argument("--no-pull", action="store_true", help="pull nothing from it")
    parser.add_argument("--no-serve", action="store_true", help="serve it nothing")
    for name, what in _GRANTS:
        parser.add_argument(f"--{name}", action="store_true", help=what)


def _grants(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "scopes": args.scope,
        "gardens": args.garden,
        "pull": not args.no_pull,
        "serve": not args.no_serve,
        **{name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name, _ in _GRANTS},
    }


def _path(args: argparse.Namespace, action: str = "") -> str:
    return f"/v1/federation/peers/{quote(args.peer, safe='')}{action}"


def run_declaration(args: argparse.Namespace) -> int:
    """Print the declaration and the fingerprint."""
    with reach(args) as client:
        print_json(client.get("/v1/federation/declaration"))
    return 0


def run_add(args: argparse.Namespace) -> int:
    """Fetch the other node's declaration and register it here."""
    with Client(args.node) as other:
        declaration = other.get("/v1/federation/declaration")
    shown = declaration.pop("pubkey_fingerprint", None)
    with reach(args) as client:
        answer = client.post("/v1/federation/peers", declaration)
    if args.json:
        print_json(answer)
    if answer["status"] == "rejected":
        raise CommandError(f"the declaration was rejected: {_why_rejected(client, answer)}")
    if not args.json:
        print(f"peer {answer['peer_id']} ({declaration['node_id']}) waits for approval")
        print(f"its key's fingerprint: {shown}")
        print("compare it with the other operator's, then: engramlog peer approve")
    return 0


def _why_rejected(client: Client, answer: dict[str, Any]) -> str:
    """The reason for the rejection, which only administrators see."""
    try:
        return str(client.get(f"/v1/federation/peers/{answer['peer_id']}")["reason"])
    except ClientError:
        return str(answer["reason"])


def run_approve(args: argparse.Namespace) -> int:
    """Approve."""
    body = {"pubkey_fingerprint": args.fingerprint, "grants": _grants(args)}
    with reach(args) as client:
        answer = client.post(_path(args, "/approve"), body)
    print(f"peer {answer['node_id']} is active")
    return 0


def run_grant(args: argparse.Namespace) -> int:
    """Change its grants."""
    with reach(args) as client:
        answer = client.request("PUT", _path(args, "/grants"), body=_grants(args))
    print(f"peer {answer['node_id']} has other grants now")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print every peer."""
    with reach(args) as client:
        answer = client.get("/v1/federation/peers")
    if args.json:
        return print_json(answer)
    rows = [
        [each["peer_id"], each["status"], each["node_id"], each["node_url"],
         ",".join(each["allowed_scopes"])]
        for each in answer["peers"]
    ]  # fmt: skip
    print_table(("peer", "status", "node", "address", "scopes"), rows, empty="no peers")
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Print one peer in full."""
    with reach(args) as client:
        print_json(client.get(_path(args)))
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Compare; exit code 1 if the nodes differ."""
    with reach(args) as client:
        answer = client.get(_path(args, "/compare"))
    for each in answer["streams"]:
        print(f"{'equal' if each['equal'] else 'DIFFERS'}  {each['stream']}")
    for each in answer["tombstones"]:
        print(f"{'equal' if each['equal'] else 'DIFFERS'}  tombstones of {each['node_id']}")
    if answer["first_difference"] is not None:
        print(f"first difference: {answer['first_difference']}")
        return 1
    print(f"{len(answer['streams'])} streams and the tombstones, all equal")
    return 0


def run_revoke(args: argparse.Namespace) -> int:
    """End the peering."""
    with reach(args) as client:
        answer = client.post(_path(args, "/revoke"), {"reason": args.reason})
    print(f"peer {answer['node_id']} is {answer['status']}")
    return 0


def run_release(args: argparse.Namespace) -> int:
    """Resume a held stream."""
    with reach(args) as client:
        client.post(_path(args, "/release"), {"stream": args.stream, "reason": args.reason})
    print(f"resumed {args.stream}")
    return 0
