"""``engramlog capability``: tokens that carry rights and can be verified anywhere."""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins

from engramlog.api.cli.arguments import CommandError, add_target_arguments
from engramlog.api.cli.reach import reach
from engramlog.api.cli.requests import Request, everybodys, fields_of, table
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.client.client import path_segment
from engramlog.api.routes.rights.capabilities import CapabilityClaims, claims
from engramlog.projections.moment import SECOND_US, instant_meant, parse_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.rights.capability_grant import VERBS, Grant, GrantError, stored_prefix
from engramlog.projections.rights.capability_token import (
    CapabilityInvalid,
    decode_bearer,
    encode_bearer,
    narrow,
)
from engramlog.projections.rights.capability_verification import fault_of, verify

EXAMPLES = """\
examples:
  engramlog capability issue --subject agent:crawler --verb read --scope company --data memory
  engramlog capability narrow - --entity stigmem://acme.example/project < token > narrower
  engramlog capability inspect - --offline < token
  engramlog capability list --data memory
  engramlog capability revoke 0b7c3a5e-… --data memory
"""
ISSUE_EXAMPLES = """\
The token is printed once, to stdout; the node keeps only its SHA-256.

examples:
  engramlog capability issue --subject agent:crawler --data memory
  engramlog capability issue --subject agent:scribe --verb read --verb write --scope team \\
      --entity stigmem://acme.example/project --ttl 86400 --data memory
"""

COLUMNS = ("token_id", "status", "subject", "verb", "object", "expiry", "issuer", "description")
LIST = Request(
    "GET /v1/capabilities",
    table({name: name for name in COLUMNS}, empty="no capabilities"),
    part="capabilities",
    page_max=500,
    fields=lambda args: {"limit": args.limit, **everybodys(args)},
)


def register(commands: Subcommands) -> None:
    group = commands.group("capability", "issue, narrow and revoke capability tokens", EXAMPLES)
    issue = Request("POST /v1/capabilities", _show_issued, create=True, fields=_issued)
    parser = group.reaching("issue", "sign a token", issue, ISSUE_EXAMPLES)
    parser.add_argument("--subject", required=True, metavar="URI", help="who may use it")
    _add_narrowing(parser)
    parser.add_argument(
        "--ttl", dest="ttl_seconds", type=int, metavar="SECONDS",
        help="default: 3600; at most 90 days",
    )  # fmt: skip
    parser.add_argument("--expires", dest="expires_at", metavar="INSTANT", help="in place of --ttl")
    parser.add_argument("--description", help="a note for the list")

    parser = group.add("narrow", "derive a narrower token, without a node", run_narrow)
    parser.add_argument("token", metavar="TOKEN", help="the token, or - to read it from stdin")
    _add_narrowing(parser)
    parser.add_argument("--expires", metavar="INSTANT", help="end of the derived token")

    parser = group.reaching(
        "inspect", "show a token's rights, and whether it is valid", run_inspect, json=False
    )
    parser.add_argument("token", metavar="TOKEN", help="the token, or - to read it from stdin")
    parser.add_argument(
        "--offline", action="store_true", help="check signatures and expiry without any node"
    )

    parser = group.reaching("list", "list issued tokens, newest first", LIST)
    parser.add_argument("--limit", type=int, default=100, help="most tokens (default: 100)")
    parser = group.add("revoke", "revoke a token and all derived from it", run_revoke)
    parser.add_argument("id", metavar="ID", help="the token's id, as listed")
    parser.add_argument("--token", help="end only this derived token (- reads it from stdin)")
    parser.add_argument("--reason", default="", help="a note for the log")
    add_target_arguments(parser)


def _add_narrowing(parser: argparse.ArgumentParser) -> None:
    for name, choices, default in (
        ("verb", VERBS, "default: read; for narrow: as before"),
        ("scope", SCOPES, "default: all; for narrow: as before"),
    ):
        parser.add_argument(
            f"--{name}", dest=f"{name}s", action="append", choices=choices,
            help=f"repeatable ({default})",
        )  # fmt: skip
    parser.add_argument("--entity", metavar="PREFIX", help="only entities under this prefix")


def _issued(args: argparse.Namespace) -> dict[str, Any]:
    return {"verbs": ["read"], **fields_of(args)}


def _show_issued(_: argparse.Namespace, answer: dict[str, Any]) -> None:
    print(answer["token"])
    print(
        f"capability {answer['token_id']} for {answer['subject']}: {answer['verb']} on "
        f"{answer['object']}, until {answer['expiry']}",
        file=sys.stderr,
    )


def run_narrow(args: argparse.Namespace) -> int:
    """Add a block to a token and print the narrowed one."""
    grant = None
    try:
        if args.verbs or args.scopes or args.entity:
            entities = (stored_prefix(args.entity),) if args.entity else ()
            grant = Grant(
                frozenset(args.verbs or VERBS), frozenset(args.scopes or SCOPES), entities
            )
        expires_us = None if args.expires is None else parse_instant(instant_meant(args.expires))
        capability = decode_bearer(_given(args.token))
        lesser = narrow(capability, grant=grant, expires_at_us=expires_us)
        if verify(lesser).grant.empty:
            raise CommandError("the derived token would allow nothing")
    except (CapabilityInvalid, GrantError, ValueError) as fault:
        raise CommandError(str(fault)) from fault
    print(encode_bearer(lesser))
    return 0


def run_inspect(args: argparse.Namespace) -> int:
    """Print a token's claims; exit code 1 if it is not valid."""
    text = _given(args.token)
    if args.offline:
        answer = _inspected(text)
    else:
        with reach(args) as client:
            answer = client.post("/v1/capabilities/inspect", {"token": text})
    print_json(answer)
    return 0 if answer["valid"] else 1


def _inspected(text: str) -> dict[str, Any]:
    try:
        verified = verify(decode_bearer(text))
    except CapabilityInvalid as fault:
        return to_builtins(CapabilityClaims(valid=False, reason=str(fault)))
    now_us = int(datetime.now(UTC).timestamp() * SECOND_US)
    return to_builtins(claims(verified, fault_of(verified, now_us)))


def run_revoke(args: argparse.Namespace) -> int:
    body = {"reason": args.reason, "token": None if args.token is None else _given(args.token)}
    with reach(args) as client:
        client.post(f"/v1/capabilities/{path_segment(args.id, safe=':')}/revoke", body)
    print(f"capability {args.id} is revoked" + (" as far as derived" if args.token else ""))
    return 0


def _given(text: str) -> str:
    return (sys.stdin.readline() if text == "-" else text).strip()
