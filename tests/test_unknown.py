"""Could-not-look in every place: each question that is asked, denied in its turn."""

from __future__ import annotations

from typing import Any

from hotplugctl import capture, diagnose, look, probe
from hotplugctl.host import Host
from hotplugctl.model import LADDER, Device, Kind, State, Unknown
from hotplugctl.output import verdicts, views
from hotplugctl.output.documents import plain
from hotplugctl.output.tables import render
from hotplugctl.readers import logs
from hotplugctl.rules import load

from .machine import MachineTree

VERBS = ("text", "data", "names", "link", "real", "stat", "run", "log", "holders")


class Denying:
    """A host that notes every question, and answers one of them with "denied"."""

    def __init__(self, host: Host, denied: tuple[str, Any] | None = None) -> None:
        self._host = host
        self._denied = denied
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self._host, name)
        if name not in VERBS:
            return answer

        def ask(question: Any, *rest: Any, **more: Any) -> Any:
            self.asked.append((name, question))
            if self._denied == (name, question):
                return Unknown("denied for the test", Kind.DENIED)
            return answer(question, *rest, **more)

        return ask


def look_closely(machine: MachineTree, host: Any) -> tuple[Device, ...]:
    """All that the commands do with a machine; returns its devices."""
    seen = look.look(host, machine.look().settings, machine.profiles)
    found = probe.machine(seen, all_pci=True, wide=True, close=True, rooms=True)
    log = logs.kernel(host)
    whole = probe.replace(found, logs=log if isinstance(log, tuple) else ())
    diagnosis = diagnose.diagnose(whole, load.rules(), load.taxonomy(), machine.profiles, live=True)
    for table in (views.devices(found.devices, views.WIDE), views.slots(found.slots), *verdicts.pages(diagnosis)):
        render(table, "plain")
    for device in found.devices:
        render(views.probed(device), "plain")
    plain(diagnosis)
    capture.superset(host)
    return found.devices


def test_one_denied_question_breaks_nothing_and_raises_nobody(machine: MachineTree) -> None:
    machine.port()
    machine.card(serial=5, aer_dev_fatal="TOTAL_ERR_FATAL 0", iommu="")
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.port("0000:00:03.0", slot="3", bus=3)
    machine.card("0000:03:00.0", under="0000:00:03.0", driver=None, lost_bar=True)
    machine.port("0000:00:04.0", slot="4", bus=4)
    machine.kmsg("pci 0000:03:00.0: BAR 0 [mem size 0x1000000000 64bit pref]: can't assign; no space")
    noting = Denying(machine.host)
    before = {d.address or d.slot: d for d in look_closely(machine, noting)}
    questions = sorted(set(noting.asked), key=str)
    assert len(questions) > 150
    for question in questions:
        if question == ("names", "/sys/bus/pci/devices"):
            continue  # without it there is nothing to list: tests/test_cli.py
        for device in look_closely(machine, Denying(machine.host, question)):
            assert device.error is None, (question, device.error)
            known = before.get(device.address or device.slot)
            if known is not None and known.rung in LADDER and device.rung in LADDER:
                assert LADDER.index(device.rung) <= LADDER.index(known.rung), question
            if device.state is State.FAILED:
                assert known is not None
                assert known.state is State.FAILED, question
