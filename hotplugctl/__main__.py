"""python -m hotplugctl."""

from __future__ import annotations

import sys


def main() -> None:
    """The command line's entry."""
    from .cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
