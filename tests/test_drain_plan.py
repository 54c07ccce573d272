"""What a drain plans, refuses and warns of: on built machines, and on values where a process is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest

from hotplugctl import probe
from hotplugctl.drain import orders, refusing, replacing, words
from hotplugctl.drain.plan import plan
from hotplugctl.drain.pulling import safe_to_pull
from hotplugctl.drain.record import SCHEMA, Record, Taken
from hotplugctl.drain.run import Talk
from hotplugctl.drain.site import Card, Piece, Site, Wish
from hotplugctl.drain.survey import Survey
from hotplugctl.drain.undo import undo
from hotplugctl.drain.words import again
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import (
    Blocker,
    Device,
    Held,
    Holder,
    Hotplug,
    Kind,
    Placement,
    Plan,
    Slot,
    State,
    Unknown,
    Work,
)
from hotplugctl.select import Filters

from .machine import MachineTree

ADDRESS = "0000:01:00.0"
BOOT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def machine(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.port()
    return tree


def surveyed(tree: MachineTree, *addresses: str, wish: Wish = Wish()) -> Site:
    """The site of a drain of these cards, as on the machine itself."""
    seen = tree.look()
    found = probe.machine(seen)
    wanted = [device for device in found.devices if device.address in (addresses or (ADDRESS,))]
    return replace(Survey(seen, found, wish).site(wanted, None), live=True)


def planned(tree: MachineTree, *addresses: str, **wishes: Any) -> Plan:
    wish = Wish(**wishes)
    site = surveyed(tree, *addresses, wish=wish)
    return plan(replace(site, cards=tuple(replace(card, holders=()) for card in site.cards)), wish)


def what_forbids(found: Plan) -> list[tuple[str, str | None]]:
    return [(blocker.why, blocker.lifted_by) for blocker in found.blockers]


def dos(found: Plan) -> list[str]:
    return [step.do for step in found.steps]


# --- steps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("goal", "steps"), [
    ("unbind", ["record", "announce", "unbind"]),
    ("remove", ["record", "announce", "unbind", "remove", "light"]),
    ("power", ["record", "announce", "unbind", "power", "light"]),
])
def test_it_goes_as_far_as_was_asked_and_unbinds_first(machine: MachineTree, goal: str, steps: list[str]) -> None:
    machine.card()
    assert dos(planned(machine, goal=goal)) == steps


def test_functions_are_unbound_last_first_and_a_gpus_audio_is_no_foreigner(machine: MachineTree) -> None:
    machine.card()
    machine.card("0000:01:00.1", vendor="10de", device="22ba", class_="040300", driver="snd_hda_intel")
    found = planned(machine)
    assert found.blockers == ()
    assert [step.target for step in found.steps if step.do == "unbind"] == ["0000:01:00.1", ADDRESS]
    assert found.group == (ADDRESS, "0000:01:00.1")


def test_virtual_functions_are_switched_off_before_their_driver_goes(machine: MachineTree) -> None:
    machine.card(sriov_numvfs="2")
    virtual = machine.card("0000:01:00.2", device="11e9", driver="vfio-pci", node=False)
    machine.link(f"{virtual}/physfn", f"../{ADDRESS}")
    found = planned(machine)
    assert dos(found)[2:] == ["vfs", "unbind", "unbind"]
    assert found.blockers == ()
    assert any("virtual functions go with it" in warning for warning in found.warnings)


def test_behind_a_switch_on_the_card_only_its_top_is_removed(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(last_bus=3)
    machine.port("0000:01:00.0", slot=None, bus=2, last_bus=3, under="0000:00:01.0")
    machine.port("0000:02:00.0", slot=None, bus=3, under="0000:01:00.0")
    machine.card("0000:03:00.0", under="0000:02:00.0")
    found = planned(machine, "0000:03:00.0", goal="remove")
    assert [step.target for step in found.steps if step.do == "unbind"] == ["0000:03:00.0"]
    assert [step.target for step in found.steps if step.do == "remove"] == ["0000:01:00.0"]


def test_a_port_without_a_power_controller_gets_remove_and_a_warning(machine: MachineTree) -> None:
    machine.card()
    site = surveyed(machine, wish=Wish(goal="power"))
    [card] = site.cards
    assert card.slot is not None
    slot = replace(card.slot, hotplug=replace(card.slot.hotplug, power_controller=False))
    found = plan(replace(site, cards=(replace(card, slot=slot, holders=()),)), Wish(goal="power"))
    assert "remove" in dos(found)
    assert "power" not in dos(found)
    assert any("no power controller" in warning for warning in found.warnings)


# --- what forbids it ----------------------------------------------------------------------------------------------


def disk(machine: MachineTree, here: str, name: str = "nvme0n1", number: str = "259:0") -> None:
    machine.put(f"{here}/nvme/nvme0/{name}/dev", number)
    machine.link(f"/sys/class/block/{name}", f"../../{here.removeprefix('/sys/')}/nvme/nvme0/{name}")
    machine.put(f"/sys/class/block/{name}/dev", number)


def console(machine: MachineTree, here: str) -> None:
    machine.put(f"{here}/boot_vga", "1")


def mounted(machine: MachineTree, here: str) -> None:
    disk(machine, here)
    machine.put("/proc/1/mountinfo", r"29 1 259:0 / /data\040one rw,relatime shared:1 - ext4 /dev/nvme0n1 rw")


def mounted_over_a_mapper(machine: MachineTree, here: str) -> None:
    disk(machine, here)
    machine.put("/sys/class/block/nvme0n1/holders/dm-0/dev", "253:0")
    machine.put("/sys/class/block/dm-0/dev", "253:0")
    machine.put("/proc/1/mountinfo", "29 1 253:0 / / rw - ext4 /dev/mapper/root rw")


def swap(machine: MachineTree, here: str) -> None:
    disk(machine, here)
    machine.put("/proc/1/mountinfo", "29 1 8:1 / / rw - ext4 /dev/sda1 rw")
    machine.put("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/nvme0n1 partition 1000 0 -2")


def way_out(machine: MachineTree, here: str) -> None:
    machine.put(f"{here}/net/eth7/mtu", "1500")
    machine.link("/sys/class/net/eth7", f"../../{here.removeprefix('/sys/')}/net/eth7")
    machine.put("/proc/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
                "eth7 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0")


def way_out_over_a_bond(machine: MachineTree, here: str) -> None:
    way_out(machine, here)
    machine.put("/proc/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
                "bond0 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0")
    machine.put("/sys/class/net/bond0/mtu", "1500")
    machine.link("/sys/class/net/bond0/lower_eth7", "../eth7")


@pytest.mark.parametrize(("needs", "says"), [
    (console, "it is the console's display (boot_vga)"),
    (mounted, "nvme0n1 is mounted at /data one"),
    (mounted_over_a_mapper, "nvme0n1 on dm-0 is mounted at /"),
    (swap, "nvme0n1 is swap"),
    (way_out, "eth7 has the default route"),
    (way_out_over_a_bond, "eth7 has the default route by way of bond0"),
])
def test_what_the_machine_itself_lives_on_is_refused_and_nothing_lifts_it(
    machine: MachineTree, needs: Callable[[MachineTree, str], None], says: str
) -> None:
    needs(machine, machine.card())
    assert (says, None) in what_forbids(planned(machine, goal="power", timeout_s=60, stop_holders=True, group=True))


def test_a_stranger_below_the_same_port_is_refused(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(last_bus=4)
    machine.port("0000:01:00.0", slot=None, bus=2, last_bus=4, under="0000:00:01.0")
    for number, device in enumerate((0, 1)):
        machine.port(f"0000:02:{device:02x}.0", slot=None, bus=3 + number, under="0000:01:00.0")
    machine.card("0000:03:00.0", under="0000:02:00.0")
    machine.card("0000:04:00.0", under="0000:02:01.0", vendor="15b3", device="101e", class_="020000", driver="mlx5")
    [blocker] = planned(machine, "0000:03:00.0", group=True).blockers
    assert blocker == Blocker(
        "0000:04:00.0 is below the same port and no accelerator", "it is 15b3:101e of class 020000", None)


def test_another_card_in_the_slot_goes_along_only_with_group_or_when_it_was_named(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(last_bus=4)
    machine.port("0000:01:00.0", slot=None, bus=2, last_bus=4, under="0000:00:01.0")
    for number in (0, 1):
        machine.port(f"0000:02:{number:02x}.0", slot=None, bus=3 + number, under="0000:01:00.0")
        machine.card(f"0000:0{3 + number}:00.0", under=f"0000:02:{number:02x}.0")
    assert [b.lifted_by for b in planned(machine, "0000:03:00.0").blockers] == ["--group"]
    assert planned(machine, "0000:03:00.0", group=True).blockers == ()
    both = planned(machine, "0000:03:00.0", "0000:04:00.0")
    assert both.blockers == ()
    assert [step.target for step in both.steps if step.do == "unbind"] == ["0000:04:00.0", "0000:03:00.0"]


@pytest.mark.parametrize(("replace_it", "lifted_by"), [(False, "--remove"), (True, None)])
def test_a_card_in_no_hot_plug_slot_cannot_be_switched_off(
    tmp_path: Path, replace_it: bool, lifted_by: str | None
) -> None:
    machine = MachineTree(tmp_path)
    machine.port(slot=None)
    machine.card()
    found = planned(machine, goal="power", replace=replace_it)
    assert [blocker.lifted_by for blocker in found.blockers] == [lifted_by]
    assert found.safe_to_pull is not None
    assert (found.safe_to_pull.value, "power the server off" in found.safe_to_pull.because) == (False, True)


# --- who works on it ----------------------------------------------------------------------------------------------


HOLDER = Holder(41, "python3", "ann", "fd", "/dev/accel/accel0", None, None, None, "stop pid 41", None, 1000.0)


def busy(machine: MachineTree, *holders: Holder, wish: Wish = Wish(), **more: Any) -> Plan:
    machine.card()
    site = surveyed(machine, wish=wish)
    cards = tuple(replace(card, holders=holders, **more.get("card", {})) for card in site.cards)
    return plan(replace(site, cards=cards, **more.get("site", {})), wish)


def test_a_holder_blocks_until_it_may_be_waited_for_or_stopped(machine: MachineTree) -> None:
    [blocker] = busy(machine, HOLDER).blockers
    assert blocker.what == "pid 41 python3 (ann) has /dev/accel/accel0"
    assert blocker.lifted_by == "--timeout D, or --stop-holders"
    waiting = busy(machine, HOLDER, wish=Wish(timeout_s=60))
    assert (waiting.blockers, dos(waiting)) == ((), ["record", "announce", "wait", "unbind"])
    stopping = busy(machine, HOLDER, wish=Wish(stop_holders=True))
    assert (stopping.blockers, dos(stopping)) == ((), ["record", "announce", "stop", "unbind"])
    assert [step.target for step in stopping.steps if step.do == "stop"] == ["pid 41 python3 (ann)"]


def test_what_may_never_be_signalled_can_only_be_waited_for(machine: MachineTree) -> None:
    init = {"site": {"untouchable": {41: "pid 1 is the machine's init"}}}
    [blocker] = busy(machine, HOLDER, wish=Wish(stop_holders=True), **init).blockers
    assert (blocker.why.partition(";")[0], blocker.lifted_by) == ("pid 1 is the machine's init", "--timeout D")
    both = busy(machine, HOLDER, wish=Wish(stop_holders=True, timeout_s=60), **init)
    assert both.blockers == ()
    assert any("only waited for" in warning for warning in both.warnings)


def test_who_could_not_be_looked_for_is_never_nobody(machine: MachineTree) -> None:
    machine.card()
    site = surveyed(machine)
    blind = tuple(replace(card, holders=Unknown("needs root", Kind.DENIED)) for card in site.cards)
    assert [b.why for b in plan(replace(site, cards=blind), Wish()).blockers] == ["needs root"]
    captured = plan(replace(site, cards=blind, live=False), Wish())
    assert captured.blockers == ()
    assert any("was not captured" in warning for warning in captured.warnings)


def test_a_service_that_the_drain_stops_itself_is_no_obstacle(machine: MachineTree) -> None:
    daemon = replace(HOLDER, unit="exporter.service")
    found = busy(machine, daemon, card={"units": ("exporter",), "quiesce": {"exporter": "reads every card"}})
    assert (found.blockers, dos(found)) == ((), ["record", "announce", "quiesce", "unbind"])
    assert [step.undo for step in found.steps if step.do == "quiesce"] == ["systemctl start exporter"]


def placed(**more: Any) -> Placement:
    return Placement(scheduler="slurm", where="node n1, gres accel, index 0", closed=False, **more)


def test_a_scheduler_is_closed_first_and_its_job_is_work(machine: MachineTree) -> None:
    job = Work("12", "train", "ann", "RUNNING", "scancel 12")
    found = busy(machine, card={"placements": (placed(work=(job,)),)})
    assert dos(found) == ["record", "cordon", "announce", "wait", "unbind"]
    assert [blocker.what for blocker in found.blockers] == ["12 runs on it"]


def test_a_process_of_a_job_is_ended_by_its_scheduler(machine: MachineTree) -> None:
    job = Work("12", "train", "ann", "RUNNING", "scancel 12")
    found = busy(machine, replace(HOLDER, job="12"), wish=Wish(stop_holders=True),
                 card={"placements": (placed(work=(job,)),)})
    assert [(step.target, step.why) for step in found.steps if step.do == "stop"] == [
        ("pid 41 python3 (ann)", "by its scheduler"), ("12", "scancel 12")]


def test_what_a_scheduler_cannot_close_is_told_with_its_option(machine: MachineTree) -> None:
    cannot = Blocker("only the whole node can be cordoned", "there is no DeviceTaintRule here", "--scope node")
    assert busy(machine, card={"placements": (placed(blockers=(cannot,)),)}).blockers == (cannot,)


# --- peers --------------------------------------------------------------------------------------------------------


def test_who_shares_the_iommu_group_or_the_fabric_is_told(machine: MachineTree) -> None:
    machine.card()
    here = machine.paths[ADDRESS]
    machine.link(f"{here}/iommu_group", "/sys/kernel/iommu_groups/9")
    for member in (ADDRESS, "0000:09:00.0"):
        machine.link(f"/sys/kernel/iommu_groups/9/devices/{member}", f"/sys/bus/pci/devices/{member}")
    machine.port("0000:00:02.0", slot="2", bus=2)
    for address, under in (("0000:01:00.1", "0000:00:01.0"), ("0000:02:00.0", "0000:00:02.0")):
        machine.card(address, under=under, vendor="10de", device="2330", class_="030200", driver="nvidia", node=False)
    found = planned(machine, ADDRESS, "0000:01:00.1")
    assert any("IOMMU group 9 of 0000:01:00.0 also holds 0000:09:00.0" in warning for warning in found.warnings)
    assert any("NVLink with 0000:02:00.0" in warning for warning in found.warnings)
    assert found.blockers == (), "peers in other slots are warnings"


# --- may it be pulled ---------------------------------------------------------------------------------------------


PIECE = Piece(address=ADDRESS, path="/sys/x", what="edu")
FULL = Hotplug("pciehp", capable=True, surprise=True, button=True, power_controller=True, indicator=True, latch=False)


@pytest.mark.parametrize(("hotplug", "power", "pieces", "value"), [
    (FULL, "off", (), True),
    (FULL, "on", (), False),
    (FULL, "off", (PIECE,), False),
    (FULL, Unknown("denied", Kind.DENIED), (), None),
    (replace(FULL, power_controller=False), "on", (), True),
    (replace(FULL, power_controller=False, surprise=False), "on", (), False),
    (replace(FULL, power_controller=Unknown("denied", Kind.DENIED)), "off", (), None),
    (replace(FULL, driver="acpiphp", power_controller=None), "off", (), True),
    (replace(FULL, driver=None, capable=False), None, (), False),
    (replace(FULL, driver=Unknown("x", Kind.IO)), "off", (), None),
])
def test_it_is_safe_to_pull_only_when_everything_says_so(
    hotplug: Hotplug, power: Any, pieces: tuple[Piece, ...], value: bool | None
) -> None:
    card = Card(key="k", device=Device(), slot=Slot(name="1", hotplug=hotplug, power=power), pieces=pieces)
    assert safe_to_pull(card).value is value


# --- going on, and back -------------------------------------------------------------------------------------------


def recorded(*taken: Taken, **more: Any) -> Record:
    return Record(**{
        "key": "0000:00:01.0", "slot": "1", "address": ADDRESS, "addresses": (ADDRESS,), "card": {}, "boot_id": BOOT,
        "since": "", "by": "root", "reason": "", "goal": "unbind", "scope": "device", "announced": "u", "rung": "ready",
        "taken": taken, **more})


def held(machine: MachineTree, record: Record, **card: Any) -> Site:
    site = surveyed(machine)
    return replace(site, cards=tuple(replace(one, record=record, holders=(), **card) for one in site.cards))


def test_a_drain_goes_on_from_what_is_seen(machine: MachineTree) -> None:
    machine.card(driver=None)
    done = recorded(Taken("announce", ADDRESS, "", done=True), Taken("unbind", ADDRESS, "", "labaccel", done=True))
    found = plan(held(machine, done), Wish())
    assert (found.steps, found.state) == ((), State.DRAINED)
    assert dos(plan(held(machine, done), Wish(goal="power"))) == ["record", "power", "light"], "and may go further"


def test_after_a_reboot_its_kernel_steps_are_done_again(machine: MachineTree) -> None:
    machine.card()
    found = plan(held(machine, recorded(boot_id="another")), Wish())
    assert dos(found) == ["record", "announce", "unbind"]
    assert any("before a reboot" in warning for warning in found.warnings)


TAKEN = (
    Taken("cordon", "slurm: node n1", "", done=True), Taken("announce", ADDRESS, "", done=True),
    Taken("quiesce", "exporter", "", done=True), Taken("vfs", ADDRESS, "", 2, done=True),
    Taken("unbind", ADDRESS, "", "labaccel", done=True), Taken("light", "slot:1", "", "0", done=True),
)


def test_an_undo_goes_backwards_over_exactly_what_was_done(machine: MachineTree) -> None:
    machine.card(driver=None, sriov_numvfs="0")
    found = undo(held(machine, recorded(*TAKEN)))
    assert dos(found) == ["record", "light", "bind", "vfs", "start", "ready", "uncordon", "forget"]
    begun = recorded(*TAKEN, Taken("back", "0000:00:01.0", ""))
    assert dos(undo(held(machine, begun))) == ["light", "bind", "vfs", "start", "ready", "uncordon", "forget"]


def test_what_is_back_by_itself_is_not_taken_back(machine: MachineTree) -> None:
    machine.card(sriov_numvfs="2")
    begun = recorded(*TAKEN, Taken("back", "0000:00:01.0", ""))
    assert dos(undo(held(machine, begun))) == ["light", "start", "ready", "uncordon", "forget"]


def test_an_undo_after_a_reboot_takes_back_only_what_schedulers_remember(machine: MachineTree) -> None:
    machine.card()
    assert dos(undo(held(machine, recorded(*TAKEN, boot_id="another")))) == ["uncordon", "forget"]


def test_an_unbind_that_hangs_is_not_done_though_its_link_has_gone(machine: MachineTree) -> None:
    machine.card(driver=None)
    begun = recorded(Taken("announce", ADDRESS, "", done=True), Taken("unbind", ADDRESS, "", "labaccel"))
    hanging = f"{machine.paths[ADDRESS]}/driver/unbind"
    found = plan(held(machine, begun, hanging=hanging), Wish(goal="power"))
    assert dos(found) == ["record", "unbind", "power", "light"]


def test_a_record_that_cannot_be_read_forbids_everything_and_is_not_written_over(machine: MachineTree) -> None:
    machine.card()
    machine.put("/var/lib/hotplugctl/drain/0000:00:01.0.json", "{ half of")
    found = planned(machine)
    assert "record" not in dos(found)
    assert [(blocker.what, blocker.lifted_by) for blocker in found.blockers] == [
        ("slot 1 0000:01:00.0 is held by a drain nobody can read", None)]
    assert "damaged" in found.blockers[0].why
    assert found.steps == ()
    assert machine.device().state is State.DRAINING, "a hold nobody can read is still a hold"


def damaged(**changes: Any) -> str:
    """A record with something in it that cannot be."""
    return json.dumps({"schema": SCHEMA, **asdict(recorded()), **changes})


@pytest.mark.parametrize("text", [
    "[" * 100_000, "null", "{}", '{"schema": "hotplugctl.drain/9"}', damaged(key=[1]), damaged(key="0000:00:02.0"),
    damaged(card=None), damaged(card=[]), damaged(goal="everything"), damaged(goal=None), damaged(told=None),
    damaged(told={"slurm": 1}), damaged(taken=[1]), damaged(taken=[{"do": 1}]), damaged(taken={}), damaged(addresses=1),
])
def test_one_damaged_record_is_a_hold_and_hurts_no_other_card(machine: MachineTree, text: str) -> None:
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.card()
    machine.card("0000:02:00.0", under="0000:00:02.0", driver=None)
    machine.put("/var/lib/hotplugctl/drain/0000:00:01.0.json", text)
    rows = machine.devices()
    assert rows[ADDRESS].held is not None
    assert rows["0000:02:00.0"].held is None
    assert [b.lifted_by for b in planned(machine).blockers] == [None]
    with pytest.raises(HotplugError, match="cannot be taken back"):
        refusing.unreadable("0000:00:01.0", surveyed(machine).cards[0].record)


def test_a_card_in_no_slot_that_was_removed_is_found_again_by_its_address(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(slot=None)
    record = recorded(key="0000:00:01.0", slot=None, taken=(Taken("remove", ADDRESS, "", done=True),), goal="remove")
    machine.put("/var/lib/hotplugctl/drain/0000:00:01.0.json", json.dumps({"schema": SCHEMA, **asdict(record)}))
    seen = machine.look()
    found = probe.machine(seen)
    named = orders.meant(seen, found, [ADDRESS], Filters(), undoing=True)
    site = Survey(seen, found, Wish()).site(named, None)
    assert dos(undo(site)) == ["record", "rescan", "ready", "forget"]
    assert words.undo(site) == f"hotplugctl drain {ADDRESS} --undo"
    assert [plan.state for plan in orders.status(seen, found, found.devices)] == [State.DRAINED]


def test_there_may_be_nothing_to_take_back_from_an_empty_slot_or_an_absent_address(machine: MachineTree) -> None:
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    seen = machine.look()
    found = probe.machine(seen)
    assert orders.meant(seen, found, ["slot:2", "0000:09:00.0"], Filters(), undoing=True) == ()
    for word in ("slot:2", "0000:09:00.0"):
        with pytest.raises(HotplugError) as caught:
            orders.meant(seen, found, [word], Filters())
        assert caught.value.exit is Exit.UNKNOWN


def test_one_card_is_exchanged_at_a_time(machine: MachineTree) -> None:
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.card()
    machine.card("0000:02:00.0", under="0000:00:02.0")
    seen = machine.look()
    found = probe.machine(seen)
    wish = Wish(goal="power", replace=True)
    with pytest.raises(HotplugError, match="--replace takes one card"):
        replacing.replace_card(Survey(seen, found, wish), found.devices, wish, cast(Talk, None), yes=True)


def test_only_a_slot_that_was_switched_off_has_another_card_in_it(machine: MachineTree) -> None:
    machine.card()
    off, gone = Taken("power", "slot:1", "", done=True), Taken("remove", ADDRESS, "", done=True)

    def exchanged(record: Record) -> bool:
        return replacing.exchanged(held(machine, record).cards[0])

    assert exchanged(recorded(off))
    assert exchanged(recorded(gone, pulled=True))
    assert not exchanged(recorded(gone)), "a rescan may have brought the same card back"
    assert not exchanged(recorded(off, Taken("back", "0000:00:01.0", ""))), "an undo has"


def test_the_status_of_an_exchange_asks_for_what_is_left_of_it(machine: MachineTree) -> None:
    machine.port("0000:00:02.0", slot="2", bus=2, present=False, powered=False)
    for pulled, asks in ((False, "pull"), (True, "insert")):
        record = recorded(Taken("power", "slot:2", "", done=True), Taken("light", "slot:2", "", "0", done=True),
                          key="0000:00:02.0", slot="2", goal="power", replace=True, pulled=pulled)
        machine.put("/var/lib/hotplugctl/drain/0000:00:02.0.json", json.dumps({"schema": SCHEMA, **asdict(record)}))
        seen = machine.look()
        found = probe.machine(seen)
        [shown] = orders.status(seen, found, found.devices)
        assert shown.steps[0].do == asks
        assert shown.resume == "hotplugctl drain slot:2 --replace"


def test_the_way_round_a_slot_that_cannot_be_switched_is_remove_instead(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(slot=None)
    machine.card()
    wish = Wish(goal="power")
    [blocker] = planned(machine, goal="power").blockers
    assert refusing.lifted(blocker, surveyed(machine), wish) == f"hotplugctl drain {ADDRESS} --remove"


def test_two_cards_below_a_port_without_a_slot_are_one_place(tmp_path: Path) -> None:
    machine = MachineTree(tmp_path)
    machine.port(slot=None)
    machine.card()
    machine.card("0000:01:01.0")
    assert len(surveyed(machine, ADDRESS, "0000:01:01.0").cards) == 1


def test_a_drain_in_a_bundle_is_shown_wherever_the_card_is(machine: MachineTree) -> None:
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.card(driver=None)
    for key, slot in (("0000:00:01.0", "1"), ("0000:00:02.0", "2")):
        record = recorded(key=key, slot=slot, since="2026-11-29T16:24:08.123Z", by="ann", reason="ECC")
        machine.put(f"/var/lib/hotplugctl/drain/{key}.json", json.dumps({"schema": SCHEMA, **asdict(record)}))
    rows = machine.devices()
    assert [(row.state, row.rung) for row in rows.values()] == [
        (State.DRAINED, State.MAPPED), (State.DRAINED, State.REMOVED)]
    assert rows["slot:2"].held == Held("ann", "2026-11-29T16:24:08.123Z", "ECC", "0000:00:02.0")


@pytest.mark.parametrize(("wish", "typed"), [
    (Wish(), "hotplugctl drain slot:1"),
    (Wish(goal="power", timeout_s=600.0), "hotplugctl drain slot:1 --power-off --timeout 10m"),
    (Wish(goal="power", replace=True, group=True), "hotplugctl drain slot:1 --replace --group"),
    (Wish(scope="node", scheduler="slurm", stop_holders=True, timeout_s=float("inf")),
     "hotplugctl drain slot:1 --scope node --scheduler slurm --stop-holders --timeout infinity"),
])
def test_the_command_that_goes_on_is_the_one_that_began(machine: MachineTree, wish: Wish, typed: str) -> None:
    machine.card()
    assert again(surveyed(machine), wish) == typed
