"""Second handshakes of a running watch: asked once, remembered, retried after a failure, void when the card goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hotplugctl import config, health
from hotplugctl.model import Device, State
from hotplugctl.watch import checks
from hotplugctl.watch.checks import Checks
from hotplugctl.watch.scene import Scene

from .machine import MachineTree


class Bench:
    """A scene with one initialised card, and a health check that is counted."""

    def __init__(self, machine: MachineTree, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], tuple[bool, str]]):
        machine.port()
        machine.card()
        self.runs = 0
        self.woken = threading.Event()
        self.scene = Scene(machine.host, config.Settings(), machine.profiles)
        self.scene.everything()
        self.checks = Checks(self.woken.set)

        def check(*_: Any) -> tuple[bool, str]:
            self.runs += 1
            return answer()

        monkeypatch.setattr(health, "health_check", check)

    @property
    def device(self) -> Device:
        self.scene.everything()
        (device,) = self.scene.devices.values()
        return device

    def ask(self) -> Device:
        """Ask, wait for the answer, look again."""
        self.woken.clear()
        self.checks.ask(self.scene, self.device)
        self.woken.wait(5)
        return self.device


def test_a_check_that_passed_makes_the_card_ready_and_is_not_run_again_while_young(
    machine: MachineTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(machine, monkeypatch, lambda: (True, "passed"))
    assert bench.ask().state is State.READY
    for _ in range(3):
        bench.checks.ask(bench.scene, bench.device)
    time.sleep(0.1)
    assert bench.runs == 1


def test_a_check_that_failed_is_not_run_in_a_circle(machine: MachineTree, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(machine, monkeypatch, lambda: (False, "HBM is bad"))
    assert bench.ask().missing == "ready: its health check failed: HBM is bad"
    for _ in range(3):
        bench.checks.ask(bench.scene, bench.device)
    time.sleep(0.1)
    assert bench.runs == 1


def test_a_failed_check_is_tried_again_after_a_while(machine: MachineTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "RETRY_S", 0.0)
    answers = iter([(False, "not yet"), (True, "passed")])
    bench = Bench(machine, monkeypatch, lambda: next(answers))
    bench.ask()
    assert bench.ask().state is State.READY


def test_a_result_is_over_with_the_binding_it_was_made_in(
    machine: MachineTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(machine, monkeypatch, lambda: (True, "passed"))
    ready = bench.ask()
    bench.checks.ask(bench.scene, replace(ready, state=State.BOUND, rung=State.BOUND))
    assert bench.device.state is State.INITIALISED


def test_the_result_of_a_card_that_went_while_its_check_ran_is_nobody_s(
    machine: MachineTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes = threading.Event()
    bench = Bench(machine, monkeypatch, lambda: (goes.wait(5), "passed"))
    device = bench.device
    bench.checks.ask(bench.scene, device)
    bench.checks.ask(bench.scene, replace(device, state=State.BOUND, rung=State.BOUND))
    goes.set()
    bench.woken.wait(5)
    assert bench.device.state is State.INITIALISED
