"""``engramlog identity``: the node's key, its backup and rotation, and copied directories."""

import argparse
from contextlib import closing
from pathlib import Path

from engramlog.api.answers.same_fields import shaped
from engramlog.api.cli.arguments import CommandError, add_data_arguments, settings_of
from engramlog.api.cli.subcommands import Subcommands
from engramlog.api.cli.text_tables import print_json
from engramlog.api.node.log_place import remembered
from engramlog.eventlog.directory import DataDirectory, HeldDirectory
from engramlog.eventlog.errors import DirectoryLocked
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import NodeKeyRotated
from engramlog.projections.writing.commands import Refused

EXAMPLES = """\
examples:
  engramlog identity show --data memory
  engramlog identity backup /safe/place --data memory
  engramlog identity rotate --data memory
  engramlog identity accept-copy --data restored      (the original is gone for good)
  engramlog identity new --data copy                  (the copy becomes another node)
"""


def register(commands: Subcommands) -> None:
    group = commands.group("identity", "the node's signing key", EXAMPLES)
    parser = group.add("show", "print node id, epoch and public key", run_show)
    add_data_arguments(parser, json=True)
    parser = group.add("backup", "copy the private keys to a new folder", run_backup)
    parser.add_argument("to", type=Path, metavar="FOLDER", help="must hold no keys yet")
    add_data_arguments(parser)
    for name, summary, run in (
        ("rotate", "sign with a new key from here on", run_rotate),
        ("accept-copy", "continue as the same node from a copy", run_accept_copy),
        ("new", "make a copied directory an independent node", run_new),
    ):
        add_data_arguments(group.add(name, summary, run))


def run_show(args: argparse.Namespace) -> int:
    identity = DataDirectory.inspect(settings_of(args).data_dir).identity
    shown = {
        "node_id": identity.node_id,
        "epoch": identity.epoch,
        "public_key": identity.public_key_b64,
        "rotations": len(identity.rotations),
    }
    if args.json:
        return print_json(shown)
    for name, value in shown.items():
        print(f"{name.replace('_', ' '):<11} {value}")
    return 0


def run_backup(args: argparse.Namespace) -> int:
    """Copy keys and document. Does not disturb a running node."""
    folder = settings_of(args).data_dir / "identity"
    Identity.load(folder).backup(args.to)
    print(f"backed up to {args.to}: it holds the private key, keep it safe")
    return 0


def run_rotate(args: argparse.Namespace) -> int:
    """Change the key and record it in the log."""
    settings = settings_of(args)
    from engramlog.api.cli.opening import open_node

    try:
        node = open_node(settings, create=False)
    except DirectoryLocked as fault:
        raise CommandError(f"{fault}; stop the node to rotate its key") from fault
    with closing(node):
        rotation = node.identity.rotate()
        (outcome,) = node.write(shaped(rotation, NodeKeyRotated))
    if isinstance(outcome, Refused):
        raise CommandError(f"could not record the rotation: {outcome.message}")
    print(f"{node.identity.node_id} now signs with {rotation.public_key}")
    return 0


def run_accept_copy(args: argparse.Namespace) -> int:
    """Continue as the same node, in the next epoch."""
    identity = HeldDirectory.accept_copy(settings_of(args).data_dir)
    print(f"{identity.node_id} continues here in epoch {identity.epoch}")
    return 0


def run_new(args: argparse.Namespace) -> int:
    """Continue as another node with the memory so far."""
    data = settings_of(args).data_dir
    place = remembered(data)
    if place is not None:
        raise CommandError(
            f"the log of {data} is in PostgreSQL ({place.url}), and not that of another node: give "
            "it to this one with 'engramlog log adopt', or copy it first ('engramlog copy-log')"
        )
    identity = HeldDirectory.new_identity(data)
    print(f"this directory is now {identity.node_id}")
    return 0
