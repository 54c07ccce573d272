# SPDX-License-Identifier: Apache-2.0
"""What tests of drains share: a ready card, its node, a drain and its document, what must not be left behind."""

from __future__ import annotations

import json
import threading
from typing import Any

from .boot import Job, Result
from .guest import Guest

RECORDS = "/var/lib/hotplugctl/drain"
EXIT = {"ok": 0, "usage": 2, "unknown": 3, "refused": 5, "timeout": 6, "failed": 7}


def ready(guest: Guest, slot: int) -> None:
    """Wait until the card in the slot is ready and held by nobody."""
    def state() -> str:
        found = guest.hotplugctl("list", f"slot:{slot}", "-o", "json").json()["data"]
        return found[0]["state"] if found else ""
    guest.wait(lambda: state() == "ready", 40, f"slot {slot} is ready")


def plugged(guest: Guest, slot: int) -> str:
    """A ready card in the slot; its address."""
    address = guest.plug(slot, "edu")
    ready(guest, slot)
    return address


def node(guest: Guest, address: str) -> str:
    """The node of a card."""
    name = guest.find(f"/sys/bus/pci/devices/{address}/accel/accel*")[0].rpartition("/")[2]
    return f"/dev/accel/{name}"


def bound(guest: Guest, address: str) -> bool:
    """Has it a driver?"""
    return bool(guest.find(f"/sys/bus/pci/devices/{address}/driver"))


def on_the_bus(guest: Guest, address: str) -> bool:
    """Does the kernel know it?"""
    return bool(guest.find(f"/sys/bus/pci/devices/{address}"))


def nothing_is_left(guest: Guest) -> None:
    """No record, no write, no child of ours."""
    assert guest.find(f"{RECORDS}/*.json") == []
    assert guest.find("/run/hotplugctl/writes/*.json") == []
    assert guest.run("pgrep -f '[h]otplugctl drain'", check=False).stdout == ""


def drain(guest: Guest, *words: str, code: int = 0, timeout: float = 120, env: dict[str, str] | None = None) -> Any:
    """`drain WORDS -o json`: the document's data, or of an error its error."""
    result = guest.hotplugctl("drain", *words, "-o", "json", timeout=timeout, env=env)
    assert result.status == code, f"{result.status}\n{result.stdout}{result.stderr}"
    document = json.loads(result.stdout)
    return document["data"] if "data" in document else document["error"]


def undo(guest: Guest, slot: int, code: int = 0) -> Any:
    """Take it back: the card is ready, and nothing is left."""
    data = drain(guest, f"slot:{slot}", "--undo", code=code)
    if code == 0:
        assert data["state"] == "ready"
        ready(guest, slot)
        nothing_is_left(guest)
    return data


class Background:
    """A `drain` that runs while the test goes on."""

    def __init__(self, guest: Guest, *words: str, env: dict[str, str] | None = None) -> None:
        self._answer: list[Result] = []
        self._thread = threading.Thread(
            target=lambda: self._answer.append(guest.hotplugctl("drain", *words, timeout=120, env=env)))
        self._thread.start()

    def result(self) -> Result:
        """Its end."""
        self._thread.join(120)
        return self._answer[0]

    def running(self) -> bool:
        """Is it at it?"""
        return self._thread.is_alive()


def begun(guest: Guest) -> None:
    """Wait until a drain is in progress."""
    guest.wait(lambda: guest.find(f"{RECORDS}/*.json") != [], 60, "the drain has begun")


def hold(guest: Guest, path: str, how: str = "exec sleep 600") -> Job:
    """A process that has the node open."""
    job = guest.start(f"exec 7<{path}; {how}")
    guest.wait(lambda: guest.run(f"ls -l /proc/{job.pid}/fd/7", check=False).status == 0, 20, f"{path} is held")
    return job
