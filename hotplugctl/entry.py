"""Where the command begins: as little as possible before an interrupt has its exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry of the command line."""
    try:
        from .__main__ import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130      # errors.Exit.INTERRUPTED, which may not be imported yet
    sys.exit(code)
