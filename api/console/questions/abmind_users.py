"""``--user-id``: the owner of the memories, for commands in abmind's style."""

import argparse
import os

VARIABLE = "ABMIND_USER_ID"


def add_user_argument(parser: argparse._ActionsContainer) -> None:  # pyright: ignore[reportPrivateUsage]  # a parser or a group of one
    """Adds ``--user-id``, and abmind's other name for it."""
    parser.add_argument(
        "--user-id", "--chat-id", metavar="USER", default=os.environ.get(VARIABLE) or None,
        help=f"whose memories: those of user:USER (default: {VARIABLE})",
    )  # fmt: skip
