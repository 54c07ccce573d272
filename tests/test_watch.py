"""The watch over built machines: wake-ups in, Changes out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hotplugctl import config
from hotplugctl.errors import HotplugError
from hotplugctl.model import Change, Uevent
from hotplugctl.output import changes as lines
from hotplugctl.output.documents import plain
from hotplugctl.watch.checks import NoChecks
from hotplugctl.watch.loop import Wake, Watch
from hotplugctl.watch.moves import Limits
from hotplugctl.watch.runs import Recording, replay
from hotplugctl.watch.scene import Scene

from .machine import MachineTree
from .test_lifecycle import healthy

PORT = "pcieport 0000:00:01.0: pciehp: Slot(1):"
STEP = Callable[[], None]


@dataclass
class Script:
    """A source that plays steps: something happens to the machine, then the watch is woken."""

    steps: list[tuple[float, STEP, dict[str, Any]]] = field(default_factory=list)
    at: float = 100.0

    def then(self, after: float, happens: STEP | None = None, *, log: tuple[str, ...] = (), **wake: Any) -> Script:
        """`after` seconds later `happens`, and the watch hears `log` lines and uevents."""
        self.steps.append((after, happens or (lambda: None), {"log": log, **wake}))
        return self

    def wait(self, timeout: float) -> Wake:
        if not self.steps:
            return Wake(self.at, self.at, ended=True)
        after, happens, wake = self.steps.pop(0)
        happens()
        self.at += after
        text = "".join(f"6,{n},{int(self.at * 1e6)},-;{line}\n" for n, line in enumerate(wake.pop("log")))
        return Wake(self.at, 1_800_000_000 + self.at, log=text, **wake)


def uevent(action: str, address: str = "0000:01:00.0", at: float = 0.0, **properties: str) -> Uevent:
    devpath = f"/devices/pci0000:00/0000:00:01.0/{address}"
    return Uevent(1, action, "pci", devpath, properties, at)


@pytest.fixture
def slot(machine: MachineTree) -> MachineTree:
    """A machine with an empty slot."""
    machine.port(present=False)
    return machine


def watch(machine: MachineTree | None, script: Any, scene: Scene | None = None) -> Watch:
    if scene is None:
        assert machine is not None
        scene = Scene(machine.host, config.Settings(), machine.profiles)
    return Watch(scene, script, NoChecks(), Limits(), lambda *_: None, boot="b")


def said(found: Iterator[Change]) -> list[str]:
    return [change.kind.value for change in found]


def seat(machine: MachineTree, **card: Any) -> STEP:
    """A card appears in the slot."""

    def happens() -> None:
        machine.put("/sys/bus/pci/slots/1/adapter", "1")
        machine.card(**card)

    return happens


def unseat(machine: MachineTree) -> STEP:
    """The card is gone from the bus and from the slot."""

    def happens() -> None:
        (machine.root / "sys/bus/pci/devices/0000:01:00.0").unlink()
        machine.put("/sys/bus/pci/slots/1/adapter", "0")

    return happens


def test_the_first_line_is_a_snapshot_also_of_nothing(slot: MachineTree) -> None:
    (change,) = watch(slot, Script().then(0)).changes()
    assert (change.kind.value, change.devices, change.standing) == ("snapshot", 0, ())
    assert plain(change)["devices"] == 0


def test_a_card_from_the_slot_to_ready(slot: MachineTree) -> None:
    script = Script().then(0)
    script.then(0.1, lambda: slot.put("/sys/bus/pci/slots/1/adapter", "1"), log=(f"{PORT} Card present",))
    script.then(0.2, seat(slot, driver=None), uevents=(uevent("add", at=100.25),))
    script.then(0.2, lambda: slot.card(driver="labaccel"), uevents=(uevent("bind"),))
    script.then(0.3, lambda: healthy(slot), checked=True)
    found = list(watch(slot, script).changes())
    assert [(c.kind.value, c.after.value if c.after else None) for c in found] == [
        ("snapshot", None), ("added", "detected"), ("progress", "mapped"), ("progress", "initialised"),
        ("ready", "ready"),
    ]
    assert found[1].address is None
    assert found[1].slot == "1"
    ready = found[-1]
    assert ready.budget is not None
    assert ready.budget.met is True
    assert len({change.id for change in found}) == len(found)


def test_a_stuck_card_has_failed_with_the_kernel_s_word_and_its_diagnosis(slot: MachineTree) -> None:
    enumerated = "pci 0000:01:00.0: [1234:11e8] type 00 class 0x120000 PCIe Endpoint"
    word = "labaccel 0000:01:00.0: Direct firmware load for labaccel/fw.bin failed with error -2"
    script = Script().then(0).then(0.1, seat(slot, driver=None), log=(enumerated,), uevents=(uevent("add"),))
    script.then(0.1, log=(word, "labaccel 0000:01:00.0: probe with driver labaccel failed with error -2"))
    asked = []
    run = watch(slot, script)
    run.diagnose = lambda scene, device: asked.append(device.address) or None  # type: ignore[func-returns-value]
    found = list(run.changes())
    assert [c.kind.value for c in found] == ["snapshot", "added", "failed"]
    assert found[-1].because == ("Direct firmware load for labaccel/fw.bin failed with error -2",)
    assert asked == ["0000:01:00.0"]
    assert "Direct firmware load" in lines.line(found[-1])


def test_a_pulled_card_is_a_surprise_with_its_lines(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    script = Script().then(0).then(
        0.1, unseat(machine), log=(f"{PORT} Link Down", f"{PORT} Card not present"),
        uevents=(uevent("unbind", at=100.05), uevent("remove", at=100.08)))
    found = list(watch(machine, script).changes())
    assert [c.kind.value for c in found] == ["snapshot", "surprise_removed"]
    gone = found[-1]
    assert (gone.expected, gone.address, gone.slot) == (False, "0000:01:00.0", "1")
    assert gone.budget is not None
    assert gone.budget.took_s == 0.05


def test_a_card_that_left_without_any_event_is_found_by_the_reconcile(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    assert said(watch(machine, Script().then(0).then(31, unseat(machine))).changes()) == ["snapshot", "removed"]


def test_lost_events_are_a_resync_with_what_changed(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    found = list(watch(machine, Script().then(0).then(1, unseat(machine), lost=3)).changes())
    assert [(c.kind.value, c.lost) for c in found] == [("snapshot", None), ("resync", 3), ("removed", None)]


def test_events_of_others_are_no_reason_to_say_anything(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    other = Uevent(1, "change", "pci", "/devices/pci0000:00/0000:00:1f.0", {}, 100.0)
    assert said(watch(machine, Script().then(0).then(0.1, uevents=(other,)).then(1)).changes()) == ["snapshot"]


def test_many_cards_at_once_share_a_batch_and_a_later_one_does_not(machine: MachineTree) -> None:
    for n in range(1, 6):
        machine.port(f"0000:00:0{n}.0", slot=str(n), bus=n, present=False)

    def all_come() -> None:
        for n in range(1, 5):
            machine.card(f"0000:0{n}:00.0", under=f"0000:00:0{n}.0")

    script = Script().then(0).then(0.1, all_come, lost=0, uevents=(uevent("add"),))
    script.then(1.0, lambda: machine.card("0000:05:00.0", under="0000:00:05.0") and None, uevents=(uevent("add"),))
    added = [c for c in watch(machine, script).changes() if c.kind.value == "added"]
    assert len(added) == 5
    assert len({c.batch for c in added[:4]}) == 1
    assert added[4].batch != added[0].batch


def test_a_recorded_run_replays_to_the_same_changes(slot: MachineTree, tmp_path: Path) -> None:
    script = Script().then(0).then(0.1, seat(slot, driver=None), uevents=(uevent("add"),))
    script.then(0.4, lambda: slot.card(driver="labaccel"), uevents=(uevent("bind"),))
    script.then(0.1, lambda: healthy(slot), checked=True)
    script.then(5, unseat(slot), log=(f"{PORT} Card not present",))
    tape = io.StringIO()
    scene = Scene(slot.host, config.Settings(), slot.profiles)
    recording = Recording(script, scene, tape)
    recording.header("b")
    live = list(watch(slot, recording, scene).changes())
    recording.finish()
    (tmp_path / "run.jsonl").write_text(tape.getvalue())
    played = replay(str(tmp_path / "run.jsonl"))
    again = list(watch(slot, played, Scene(played.host, config.Settings(), played.profiles)).changes())
    assert [plain(c) for c in again] == [plain(c) for c in live]
    assert [c.kind.value for c in live][-1] == "surprise_removed"
    (tmp_path / "cut.jsonl").write_text(tape.getvalue()[:-200])
    cut = replay(str(tmp_path / "cut.jsonl"))
    assert len(list(watch(slot, cut, Scene(cut.host, config.Settings(), cut.profiles)).changes())) > 1


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", json.dumps({"schema": "hotplugctl.run/1"})])
def test_what_is_no_run_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(HotplugError, match="is no recorded run"):
        replay(str(tmp_path / "run"))


def test_a_hostile_name_cannot_drive_the_terminal(slot: MachineTree) -> None:
    script = Script().then(0).then(0.1, seat(slot, driver="\x1b[31mx"), uevents=(uevent("add"),))
    assert all("\x1b" not in lines.line(change) for change in watch(slot, script).changes())


def test_the_shipped_run_shows_three_cards_come_up_and_one_fail_with_its_cause() -> None:
    played = replay("demo")
    run = watch(None, played, Scene(played.host, config.Settings(), played.profiles))
    found = list(run.changes())
    assert [c.kind.value for c in found if c.kind.value != "progress"] == [
        "snapshot", "added", "ready", "added", "ready", "added", "ready", "added", "failed"]
    assert "can't assign; no space" in found[-1].because[0]
