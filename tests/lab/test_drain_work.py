# SPDX-License-Identifier: Apache-2.0
"""Drains among those who work: an application that listens, and the person who exchanges the card."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .boot import Job
from .draining import Background, begun, bound, drain, nothing_is_left, plugged, ready, undo
from .guest import Guest

pytestmark = pytest.mark.lab
WORKER = Path(__file__).with_name("worker.py")


def told(job: Job, call: str) -> list[dict[str, Any]]:
    """What the application was told so far."""
    said = [json.loads(line) for line in job.peek()[0].split("\n")[:-1]]
    return [line for line in said if line["call"] == call]


def test_an_application_that_listens_moves_its_work_and_none_is_lost(guest: Guest) -> None:
    address = plugged(guest, 1)
    plugged(guest, 2)
    app = guest.start(f"{sys.executable} {WORKER}")
    guest.wait(lambda: [pool["slots"] for pool in told(app, "pool")][:1] == [["1", "2"]], 40, "it works on both cards")
    time.sleep(3)
    result = guest.hotplugctl("drain", "slot:1", "--yes", "--timeout", "60s", timeout=120)
    assert result.status == 0, result.stderr
    assert not bound(guest, address)
    assert "SIG" not in result.stderr, "nobody was signalled"
    assert "waiting for" in result.stderr, "it was at work when the drain began"
    [word] = told(app, "draining")
    assert word["slot"] == "1"
    assert 30 < word["deadline"] <= 60
    assert told(app, "moved") != []
    guest.wait(lambda: told(app, "pool")[-1]["slots"] == ["2"], 20, "the pool is without it")
    undo(guest, 1)
    guest.wait(lambda: told(app, "pool")[-1]["slots"] == ["1", "2"], 20, "and with it again")
    time.sleep(3)
    app.signal(15)
    end = json.loads(app.wait(30).stdout.splitlines()[-1])
    assert end["errors"] == []
    assert end["counts"]["begun"] == end["counts"]["done"] > 0, "no unit of work is lost"
    assert end["counts"]["1"] > 0
    assert end["counts"]["2"] > end["counts"]["1"], "the other card went on meanwhile"


def test_a_watch_sees_the_drain_and_its_undo_in_order(guest: Guest) -> None:
    plugged(guest, 1)
    watch = guest.start(guest.command("watch", "-o", "jsonl"))

    def kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in watch.peek()[0].split("\n")[:-1]]

    guest.wait(kinds, 60, "the snapshot")
    drain(guest, "slot:1", "--yes")
    guest.wait(lambda: "drained" in kinds(), 20, "drained")
    undo(guest, 1)
    guest.wait(lambda: kinds()[-1] == "ready", 20, "ready")
    watch.signal(15)
    assert [kind for kind in kinds() if kind != "progress"] == ["snapshot", "draining", "drained", "recovered", "ready"]


def test_a_card_is_exchanged_without_a_question(guest: Guest) -> None:
    """QEMU throws a card out as soon as its slot has no power, so nobody has to pull it."""
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    ready(guest, 3)
    exchange = Background(guest, "slot:3", "--replace", "--yes", "-o", "json")
    begun(guest)
    guest.wait(lambda: 3 not in guest.cards(), 60, "the card is out")
    time.sleep(2)
    assert exchange.running(), "it waits for the new card"
    guest.plug(3, "e1000e", mac="52:54:00:65:43:21")
    result = exchange.result()
    assert result.status == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert data["state"] == "ready"
    old, new = data["more"]["replaced"]["differs"]["serial"]
    assert (old, new) == (data["more"]["replaced"]["old"]["serial"], data["device"]["serial"])
    assert old != new
    assert "now put the new card into slot 3" in result.stderr
    assert f"serial: {old} before, {new} now" in result.stderr
    ready(guest, 3)
    nothing_is_left(guest)


def test_an_exchange_goes_on_after_an_interrupt_and_does_not_drain_the_new_card(guest: Guest) -> None:
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    ready(guest, 3)
    exchange = guest.start(guest.command("drain", "slot:3", "--replace", "--yes"))
    guest.wait(lambda: "now put the new card" in exchange.peek()[1], 60, "the card is out")
    exchange.signal(2)
    result = exchange.wait(30)
    assert result.status == 130
    assert "hotplugctl drain slot:3 --replace" in result.stderr
    address = guest.plug(3, "e1000e", mac="52:54:00:65:43:21")
    guest.wait(lambda: bound(guest, address), 20, "the new card is up")
    data = drain(guest, "slot:3", "--replace", "--yes")
    assert "unbind" not in [step["do"] for step in data["done"]]
    assert data["state"] == "ready"
    ready(guest, 3)
    nothing_is_left(guest)
