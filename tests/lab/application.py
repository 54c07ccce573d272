# SPDX-License-Identifier: Apache-2.0
"""An application in the guest that listens, and what it was told."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .boot import Job
from .guest import Guest

SCRIPT = Path(__file__).with_name("pool.py")


class Application:
    """The program of pool.py in the guest."""

    def __init__(self, guest: Guest, how: str = "", seconds: int = 60, env: Mapping[str, str] | None = None) -> None:
        self.guest = guest
        self.job: Job = guest.start(shlex.join([sys.executable, str(SCRIPT), how, str(seconds)]), env=dict(env or {}))
        guest.wait(lambda: self.told("changed") or not self.job.running(), 60, "the snapshot")
        assert self.job.running(), self.job.peek()[1]

    def told(self, call: str) -> list[dict[str, Any]]:
        lines = self.job.peek()[0].split("\n")[:-1]
        return [one for one in map(json.loads, lines) if one["call"] == call]

    def wait(self, call: str, count: int, timeout: float = 40) -> list[dict[str, Any]]:
        self.guest.wait(lambda: len(self.told(call)) >= count, timeout, f"{count} times {call}")
        return self.told(call)

    def stop(self) -> dict[str, Any]:
        """End it now; what it then says."""
        self.job.signal(signal.SIGTERM)
        return self.end()

    def end(self) -> dict[str, Any]:
        return self.wait("end", 1, 90)[0]
