"""The steps that take a drain back, up to READY again. The table is at the end."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from .. import act, health, probe
from ..errors import Exit, HotplugError
from ..look import look, profile_for
from ..model import LADDER, Device, State, iso_time
from .bench import (
    PROBE_S,
    SCHEDULER_S,
    SETTLE_S,
    Act,
    Bench,
    Turn,
    announcement,
    indicate,
    number_of_vfs,
    own,
    piece_of,
    slot_files,
    switch_unit,
    tell,
)
from .record import Taken, scheduler_of
from .site import Card
from .there import hook
from .undo import BACK

READY_S = 300.0         # an Ascend boots its device OS for minutes after bind
DRIVERS = "/sys/bus/pci/drivers"


def _mark(bench: Bench, turn: Turn) -> str | None:
    bench.survey.keep(own(turn.card).begun(Taken(BACK, turn.card.key, iso_time(bench.host.now()))))
    return None


def _light_back(bench: Bench, turn: Turn) -> str | None:
    taken = own(turn.card).find("light", turn.step.target)
    return indicate(bench, turn.card, str(taken.before) if taken is not None else "0")


def _power_on(bench: Bench, turn: Turn) -> str | None:
    """Power 1 brings the card back, not a rescan: pciehp keeps its own slot state (pciehp_ctrl.c)."""
    path = f"{slot_files(turn.card)}/power"
    if turn.card.slot is not None and turn.card.slot.presence is False:
        raise HotplugError(
            f"slot {turn.card.slot.name} is empty", why="power 1 brings back only a card that is there",
            hint=f"put the card in, then: hotplugctl drain {turn.card.name} --undo", exit=Exit.FAILED,
        )
    act.write(bench.host, turn.card.key, path, "1", took=lambda: bool(bench.survey.below(turn.card)), deadline=PROBE_S,
              patience=SETTLE_S, about=turn.card.port)
    return None


def _rescan(bench: Bench, turn: Turn) -> str | None:
    """The port's own bus: when it is empty the kernel also sizes the bridge's windows anew (pci-sysfs.c)."""
    parent = turn.card.port_path or f"/sys/devices/pci{turn.step.target.rpartition(':')[0]}"
    buses = bench.host.names(f"{parent}/pci_bus")
    path = f"{parent}/pci_bus/{buses[0]}/rescan" if isinstance(buses, tuple) and buses else "/sys/bus/pci/rescan"
    here = f"/sys/bus/pci/devices/{turn.step.target}/vendor"
    act.write(bench.host, turn.card.key, path, "1", took=lambda: bench.host.text(here) is not None, deadline=PROBE_S,
              patience=SETTLE_S, about=turn.step.target)
    return None


def _bind(bench: Bench, turn: Turn) -> str | None:
    taken = own(turn.card).find("unbind", turn.step.target)
    wanted = str(taken.before) if taken is not None else ""
    path = piece_of(turn.card, turn.step.target).path

    def bound() -> bool:
        link = bench.host.link(f"{path}/driver")
        return isinstance(link, str) and posixpath.basename(link) == wanted

    if bench.host.names(f"{DRIVERS}/{wanted}") is None:
        raise HotplugError(f"the driver {wanted} is not loaded", why=f"{turn.step.target} was bound to it",
                           hint=f"modprobe {wanted}, then: hotplugctl drain {turn.card.name} --undo", exit=Exit.FAILED)
    act.write(bench.host, turn.card.key, f"{DRIVERS}/{wanted}/bind", turn.step.target, took=bound, deadline=PROBE_S,
              patience=SETTLE_S, about=turn.step.target)
    return None


def _vfs_back(bench: Bench, turn: Turn) -> str | None:
    taken = own(turn.card).find("vfs", turn.step.target)
    return number_of_vfs(bench, turn.card, turn.step.target, int(taken.before) if taken is not None else 0)


def _start(bench: Bench, turn: Turn) -> str | None:
    return switch_unit(bench, "start", turn.step.target, wanted=True)


def _until_ready(bench: Bench, turn: Turn) -> str | None:
    """Wait for the rung the card had before; its health check runs when it has one."""
    wanted = State(own(turn.card).rung) if own(turn.card).rung in [s.value for s in LADDER] else State.READY
    limit = bench.wish.timeout_s if bench.wish.timeout_s is not None else READY_S
    device = reach(bench, turn.card, wanted, limit)
    if _is_at(device, wanted):
        return None
    missing = device.missing if device is not None else "the bus does not show it"
    raise HotplugError(
        f"{turn.card.said} is not {wanted.value} again after {limit:g} s", why=str(missing),
        hint=f"hotplugctl diagnose {turn.card.name}; then: hotplugctl drain {turn.card.name} --undo", exit=Exit.FAILED,
    )


def reach(bench: Bench, card: Card, wanted: State, limit_s: float) -> Device | None:
    """Look again and again until the card in this place has come to this rung; the card as last seen, None = none."""
    until, pause = bench.host.elapsed() + limit_s, 0.1
    while True:
        device = row(bench, card)
        if _is_at(device, wanted) or bench.host.elapsed() >= until:
            return device
        bench.host.pause(pause)
        pause = min(2.0, pause * 1.5)


def _is_at(device: Device | None, wanted: State) -> bool:
    """Is it at this rung, or above?"""
    return device is not None and device.rung in LADDER and LADDER.index(device.rung) >= LADDER.index(wanted)


def row(bench: Bench, card: Card) -> Device | None:
    """The card in this place as `list` would show it now, its health check run where only that is missing."""
    seen = look(bench.host, bench.survey.seen.settings, bench.survey.seen.profiles)
    seen.checked.update(bench.survey.seen.checked)
    for function in seen.functions:
        profile = profile_for(seen.profiles, function)
        if profile is None or seen.place(function) != card.key or seen.host.link(f"{function.path}/physfn") is not None:
            continue
        device = probe.row(seen, function, profile, close=False)
        if device.rung is State.INITIALISED and profile.handshake is not None:
            health.remember(seen, device, function.address, health.health_check(seen, function, profile))
            device = probe.row(seen, function, profile, close=False)
        return device
    return None


def _uncordon(bench: Bench, turn: Turn) -> str | None:
    name = scheduler_of(turn.step.target)
    for key, told in own(turn.card).told.items():
        if scheduler_of(key) == name:
            bench.survey.scheduler(name).uncordon(told, SCHEDULER_S)
    return None


def _forget(bench: Bench, turn: Turn) -> str | None:
    """The hold first, then the word: a listener that looks finds the card free."""
    record = own(turn.card)
    bench.survey.forget(record)
    tell(bench, turn.card, announcement(record, "undone", None))
    return None


BACKWARD: Mapping[str, Act] = {
    "record": _mark, "light": _light_back, "power": _power_on, "rescan": _rescan, "bind": _bind, "vfs": _vfs_back,
    "start": _start, "ready": _until_ready, "uncordon": _uncordon, "hook": hook, "forget": _forget,
}
# A step back -> the entry it takes off the record.
TAKES_BACK: Mapping[str, str] = {
    "light": "light", "power": "power", "rescan": "remove", "bind": "unbind", "vfs": "vfs", "start": "quiesce",
    "uncordon": "cordon",
}
