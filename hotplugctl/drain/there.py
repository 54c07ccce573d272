"""The steps of a drain: what each does, and what of it is recorded before. The table is at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .. import act
from ..errors import Exit, HotplugError
from ..model import Device, Driver, Step, Unknown, iso_time
from .bench import (
    REMOVE_S,
    SCHEDULER_S,
    SETTLE_S,
    UNBIND_S,
    Act,
    Bench,
    Turn,
    hook_said,
    indicate,
    number_of_vfs,
    own,
    piece_of,
    say_draining,
    slot_files,
    switch_unit,
)
from .record import OUTLIVE, Record
from .site import Card
from .survey import told_key
from .undo import BACK

NEW_UUID = "/proc/sys/kernel/random/uuid"
BLINK = "2"             # PCIe base spec 6.7.1.1.1: locate


def _record(bench: Bench, turn: Turn) -> str | None:
    """A new record; of one that is there already, how far it goes now, and what a reboot left of it."""
    earlier = turn.card.record
    if earlier is not None:
        undone = any(t.target.startswith("drain-undo/") for t in earlier.taken)     # then the others run again too
        kept = tuple(t for t in earlier.taken if t.do != BACK and not (undone and t.do == "hook") and (
            earlier.boot_id == turn.site.boot_id or t.do in OUTLIVE))
        bench.survey.keep(replace(
            earlier, taken=kept, boot_id=turn.site.boot_id, goal=bench.wish.goal, replace=bench.wish.replace))
        return None
    device = turn.card.device
    bench.survey.keep(Record(
        key=turn.card.key, slot=turn.card.slot.name if turn.card.slot is not None else None, address=device.address,
        addresses=tuple(piece.address for piece in turn.card.pieces), card=identity(device), boot_id=turn.site.boot_id,
        since=iso_time(bench.host.now()), by=bench.by, reason=bench.wish.reason or "not said", goal=bench.wish.goal,
        scope=bench.wish.scope, announced=str(bench.host.text(NEW_UUID)), rung=device.rung.value,
        replace=bench.wish.replace,
    ))
    return None


def identity(device: Device) -> dict[str, object]:
    """What tells one card from another, and what is compared when it is exchanged."""
    driver = device.driver if isinstance(device.driver, Driver) else Driver(None, None, None, None)
    link = device.link if device.link is not None and not isinstance(device.link, Unknown) else None
    values = {
        "model": device.model, "vendor_id": device.vendor_id, "device_id": device.device_id, "serial": device.serial,
        "uuid": device.uuid, "driver": driver.name, "driver_version": driver.version, "firmware": driver.firmware,
        "link_width": link.width if link else None, "link_gts": link.speed_gts if link else None,
        "bars": sum(b.size for b in device.bars if isinstance(b.size, int)) if isinstance(device.bars, tuple) else None,
        "numa_node": device.numa_node,
    }
    return {name: None if isinstance(value, Unknown) else value for name, value in values.items()}


def _check(bench: Bench, turn: Turn) -> str | None:
    why = hook_said(bench, turn.site, "drain-check", turn.step.target)
    if why is not None:
        raise HotplugError(f"the hook drain-check/{turn.step.target} forbids it", why=why,
                           hint="ask who put it there", exit=Exit.REFUSED)
    return None


def hook(bench: Bench, turn: Turn) -> str | None:
    """Run one; a failure is told and stops nothing: only drain-check may veto."""
    kind, _, name = turn.step.target.partition("/")
    why = hook_said(bench, turn.site, kind, name)
    if why is not None:
        bench.say(f"hook {turn.step.target}: {why}")
    return why


def _cordon(bench: Bench, turn: Turn) -> str | None:
    for (scheduler, accelerator), place in zip(bench.survey.asked(turn.card), turn.card.placements, strict=True):
        if place.said != turn.step.target:
            continue
        key = told_key(scheduler, accelerator)

        def remember(told: Mapping[str, object], key: str = key) -> None:
            record = bench.survey.records.get(turn.card.key) or own(turn.card)
            bench.survey.keep(replace(record, told={**record.told, key: told}))

        scheduler.cordon(accelerator, bench.wish.scope, own(turn.card).told.get(key, {}), remember, SCHEDULER_S)
    return None


def _announce(bench: Bench, turn: Turn) -> str | None:
    return say_draining(bench, turn.card)


def _quiesce(bench: Bench, turn: Turn) -> str | None:
    return switch_unit(bench, "stop", turn.step.target, wanted=False)


def _vfs(bench: Bench, turn: Turn) -> str | None:
    return number_of_vfs(bench, turn.card, turn.step.target, 0)


def _unbind(bench: Bench, turn: Turn) -> str | None:
    path = piece_of(turn.card, turn.step.target).path
    act.write(bench.host, turn.card.key, f"{path}/driver/unbind", turn.step.target,
              took=lambda: bench.host.link(f"{path}/driver") is None, deadline=UNBIND_S, about=turn.step.target)
    return None


def _remove(bench: Bench, turn: Turn) -> str | None:
    path = piece_of(turn.card, turn.step.target).path
    act.write(bench.host, turn.card.key, f"{path}/remove", "1", took=lambda: bench.host.text(f"{path}/vendor") is None,
              deadline=REMOVE_S, about=turn.step.target)
    return None


def _power_off(bench: Bench, turn: Turn) -> str | None:
    path = f"{slot_files(turn.card)}/power"

    def off() -> bool:
        left = any(bench.host.text(f"{piece.path}/vendor") is not None for piece in turn.card.pieces)
        return not left and bench.host.text(path) == "0"

    act.write(bench.host, turn.card.key, path, "0", took=off, deadline=REMOVE_S, patience=SETTLE_S,
              about=turn.card.port)
    return None


def _blink(bench: Bench, turn: Turn) -> str | None:
    return indicate(bench, turn.card, BLINK)


FORWARD: Mapping[str, Act] = {
    "record": _record, "check": _check, "hook": hook, "cordon": _cordon, "announce": _announce, "quiesce": _quiesce,
    "vfs": _vfs, "unbind": _unbind, "remove": _remove, "power": _power_off, "light": _blink,
}
# Steps that leave an entry in the record, and the fact that undoing them needs: of the function, or of the card.
RECORDED: Mapping[str, str | None] = {
    "hook": None, "cordon": None, "announce": None, "quiesce": None, "vfs": "vfs", "unbind": "driver", "remove": None,
    "power": None, "light": "light",
}


def before(card: Card, step: Step) -> object:
    """What a step is about to change."""
    fact = RECORDED[step.do]
    return None if fact is None else card.light if fact == "light" else getattr(piece_of(card, step.target), fact)
