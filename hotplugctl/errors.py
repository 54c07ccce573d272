"""What can go wrong, as one exception with one sentence, and the exit codes that scripts rely on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


class Exit(enum.IntEnum):
    """Exit codes of every verb; the value is the code, `meaning` the line that --help and the man page show."""

    OK = 0
    FAULT = 1
    USAGE = 2
    UNKNOWN = 3
    DENIED = 4
    REFUSED = 5
    TIMEOUT = 6
    FAILED = 7
    BUG = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done, or nothing to do",
    Exit.FAULT: (
        "diagnose found a fault at or above --fail-on; list --expect differs; watch --until saw the device fail"
    ),
    Exit.USAGE: "wrong options or configuration",
    Exit.UNKNOWN: "could not look: no such device, nothing captured, no evidence, or not enough to tell",
    Exit.DENIED: "not permitted; the message names what is needed",
    Exit.REFUSED: "blockers; each names the option that lifts it",
    Exit.TIMEOUT: "the condition was not met in time",
    Exit.FAILED: "a step failed or had no effect; what was done is recorded and can be resumed or undone",
    Exit.BUG: "an unexpected error in hotplugctl; --debug shows the traceback",
    Exit.INTERRUPTED: "Ctrl-C or SIGTERM, after a clean stop",
}


class HotplugError(Exception):
    """An error a person can act on: what happened, why, and the next thing to type.

    `cli.py` turns it into one sentence on stderr (and an error document on stdout under -o json) and the exit code.
    `more` are further keys of that document.
    """

    def __init__(
        self, what: str, *, why: str = "", hint: str = "", exit: Exit = Exit.UNKNOWN,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint
        self.exit = exit
        self.more = dict(more or {})

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what
