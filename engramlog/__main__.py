"""``python -m engramlog``: the ``engramlog`` command."""

import sys

from engramlog.api.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
