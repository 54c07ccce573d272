# SPDX-License-Identifier: Apache-2.0
"""A small QMP client: QEMU's control socket, with deadlines and no lost events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .channel import Channel


class QmpError(Exception):
    """QEMU refused a command; the text is QEMU's own."""


class Qmp:
    """A connection to QEMU, ready for commands."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._channel = Channel(path, timeout)
        self.execute("qmp_capabilities", timeout=timeout)

    def execute(self, command: str, arguments: Mapping[str, object] | None = None, timeout: float = 10) -> Any:
        """The command's return value; QmpError if refused, TimeoutError after `timeout` seconds."""
        reply = self._channel.ask({"execute": command, "arguments": arguments or {}}, timeout, f"QMP {command}")
        if "error" in reply:
            raise QmpError(f"{command}: {reply['error']['desc']}")
        return reply["return"]

    def mark(self) -> int:
        """Now, as a place among the events: `wait` then leaves older ones out."""
        return len(self._channel.events)

    def wait(self, event: str, since: int = 0, timeout: float = 30, **data: object) -> dict[str, Any]:
        """The first event of that name, after `since`, whose data holds these values."""
        def look() -> dict[str, Any] | None:
            for candidate in self._channel.events[since:]:
                if candidate.get("event") == event and data.items() <= candidate.get("data", {}).items():
                    return candidate
            return None
        return self._channel.wait_for(look, timeout, f"QMP event {event} {data or ''}")

    def close(self) -> None:
        """Hang up; QEMU runs on."""
        self._channel.close()
