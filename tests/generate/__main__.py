"""`python -m tests.generate [--check]`."""

from __future__ import annotations

import sys

from .everything import drift, write


def main(argv: list[str]) -> int:
    """Write everything, or with --check only say what is not as it would be written; 1 where something is wrong."""
    if argv not in ([], ["--check"]):
        print("usage: python -m tests.generate [--check]", file=sys.stderr)
        return 2
    found = drift() if argv else write()
    print("\n".join(found) or "nothing has drifted")
    return int(any(not line.startswith("wrote ") for line in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
