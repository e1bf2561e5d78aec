"""``engramlog capability``: tokens that carry rights, narrowed and verified without a node."""

import argparse
import sys
from datetime import UTC, datetime

from msgspec import to_builtins

from engramlog.api.console.arguments import CommandError
from engramlog.api.console.subcommands import Subcommands
from engramlog.api.console.text_tables import print_json
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
  engramlog capability narrow - --entity stigmem://acme.example/project < token > narrower
  engramlog capability inspect - < token
"""


def register(commands: Subcommands) -> None:
    group = commands.group("capability", "narrow and inspect capability tokens", EXAMPLES)
    parser = group.add("narrow", "derive a narrower token", run_narrow)
    parser.add_argument("token", metavar="TOKEN", help="the token, or - to read it from stdin")
    for name, choices in (("verb", VERBS), ("scope", SCOPES)):
        parser.add_argument(
            f"--{name}", dest=f"{name}s", action="append", choices=choices,
            help="repeatable (default: as before)",
        )  # fmt: skip
    parser.add_argument("--entity", metavar="PREFIX", help="only entities under this prefix")
    parser.add_argument("--expires", metavar="INSTANT", help="end of the derived token")
    parser = group.add("inspect", "show a token's rights; check signatures and expiry", run_inspect)
    parser.add_argument("token", metavar="TOKEN", help="the token, or - to read it from stdin")


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
    now_us = int(datetime.now(UTC).timestamp() * SECOND_US)
    try:
        verified = verify(decode_bearer(_given(args.token)))
        found = claims(verified, fault_of(verified, now_us))
    except CapabilityInvalid as fault:
        found = CapabilityClaims(valid=False, reason=str(fault))
    print_json(to_builtins(found))
    return 0 if found.valid else 1


def _given(text: str) -> str:
    return (sys.stdin.readline() if text == "-" else text).strip()
