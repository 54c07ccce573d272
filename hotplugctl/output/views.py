"""What people see of devices and slots: values -> Tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..errors import Exit, HotplugError
from ..lifecycle import human_size
from ..model import (
    UNSEEN,
    Device,
    Driver,
    Errors,
    Holder,
    Link,
    Maybe,
    Node,
    Port,
    Power,
    Probed,
    Room,
    Slot,
    SlotControl,
    Unknown,
)
from .documents import plain
from .tables import Column, Row, Table

Shown = tuple[Column, Callable[[Device], object]]


def _driver(device: Device) -> object:
    return device.driver.name if isinstance(device.driver, Driver) else device.driver


def link(value: Maybe[Link]) -> object:
    """`x16 32 GT/s`, with what could be when it is less: `x8 of x16 32 GT/s`."""
    if not isinstance(value, Link):
        return value
    if value.width is None:
        return "down"
    if isinstance(value.width, Unknown) or not isinstance(value.speed_gts, float):
        return value.width if isinstance(value.width, Unknown) else value.speed_gts
    wide = f" of x{value.limit_width}" if isinstance(value.limit_width, int) and value.width < value.limit_width else ""
    fast = ""
    if isinstance(value.limit_speed_gts, float) and isinstance(value.speed_gts, float):
        fast = f" of {value.limit_speed_gts:g}" if value.speed_gts < value.limit_speed_gts else ""
    return f"x{value.width}{wide} {value.speed_gts:g}{fast} GT/s"


def _nodes(device: Device) -> object:
    nodes = device.nodes
    return tuple(node.path for node in nodes) if isinstance(nodes, tuple) else nodes


def _errors(device: Device) -> object:
    errors = device.errors
    if not isinstance(errors, Errors):
        return errors
    return "/".join("?" if isinstance(n, Unknown) else str(n) for n in
                    (errors.correctable, errors.nonfatal, errors.fatal))


def _remarks(device: Device) -> object:
    """What is missing, then the notes: the column an operator reads last and longest."""
    parts = [device.error] if device.error else []
    parts += [device.missing] if device.missing else []
    parts += [note.text for note in device.notes]
    return "; ".join(parts) or None


def _name(device: Device) -> object:
    if device.model is None and device.vendor is None:
        return f"{device.vendor_id}:{device.device_id}" if device.vendor_id else None
    return device.model if device.model is not None else device.vendor


# Every column of `list`; DEFAULT and WIDE pick from it, --columns any.
COLUMNS: Mapping[str, Shown] = {
    "address": (Column("ADDRESS"), lambda d: d.address),
    "slot": (Column("SLOT", 1), lambda d: d.slot),
    "printed": (Column("PRINTED", 5), lambda d: d.slot_printed),
    "model": (Column("MODEL", 2, wraps=True, least=12), _name),
    "state": (Column("STATE", marked=True), lambda d: d.state.value + ("" if d.sure else "?")),
    "rung": (Column("RUNG", 6), lambda d: d.rung.value),
    "driver": (Column("DRIVER", 3), _driver),
    "link": (Column("LINK", 4), lambda d: link(d.link)),
    "nodes": (Column("NODES", 5), _nodes),
    "numa": (Column("NUMA", 6), lambda d: d.numa_node),
    "iommu": (Column("IOMMU", 8), lambda d: d.iommu_group),
    "profile": (Column("PROFILE", 8), lambda d: d.profile),
    "vendor": (Column("VENDOR", 8), lambda d: d.vendor),
    "ids": (Column("IDS", 8), lambda d: f"{d.vendor_id}:{d.device_id}" if d.vendor_id else None),
    "class": (Column("CLASS", 8), lambda d: d.class_),
    "serial": (Column("SERIAL", 7), lambda d: d.serial),
    "uuid": (Column("UUID", 8), lambda d: d.uuid),
    "power": (Column("POWER", 8), lambda d: d.power.state if isinstance(d.power, Power) else d.power),
    "errors": (Column("COR/NONFATAL/FATAL", 7), _errors),
    "labels": (Column("LABELS", 8), lambda d: d.labels),
    "remarks": (Column("REMARKS", 2, wraps=True), _remarks),
}
DEFAULT = ("address", "slot", "model", "state", "driver", "link", "nodes", "remarks")
WIDE = (
    "address", "slot", "printed", "model", "state", "driver", "link", "nodes", "numa", "iommu", "ids", "serial",
    "power", "errors", "labels", "remarks",
)


def columns(asked: str | None, *, wide: bool) -> tuple[str, ...]:
    """The columns to show. Raises HotplugError(USAGE) naming those that do not exist."""
    if asked is None:
        return WIDE if wide else DEFAULT
    names = tuple(name.strip() for name in asked.split(",") if name.strip())
    for name in names or ("",):
        if name not in COLUMNS:
            raise HotplugError(
                f"no column {name!r}", why=f"columns are {', '.join(COLUMNS)}",
                hint="hotplugctl list --columns address,slot,state,link", exit=Exit.USAGE,
            )
    return names


def devices(found: Sequence[Device], names: Sequence[str], notes: Sequence[str] = ()) -> Table:
    """The table of `list`."""
    shown = [COLUMNS[name] for name in names]
    rows = [Row(tuple(get(device) for _, get in shown), device.state) for device in found]
    more = "" if set(WIDE) <= set(names) else "--wide, or -o plain"
    return Table(tuple(column for column, _ in shown), tuple(rows), tuple(notes), more=more)


def health(found: Sequence[Device]) -> str:
    """One line: how many are ready, how many are not, how many notes."""
    ready = sum(device.state.value == "ready" for device in found)
    noted = sum(len(device.notes) for device in found)
    parts = [f"{ready} of {len(found)} ready"]
    if ready < len(found):
        parts.append(f"{len(found) - ready} not: hotplugctl diagnose")
    if noted:
        parts.append(f"{noted} note{'s' if noted > 1 else ''}")
    return "; ".join(parts)


def settings(shown: Sequence[tuple[str, str, str]]) -> Table:
    """The table of `list --show-config`."""
    columns = (Column("SETTING"), Column("VALUE", wraps=True), Column("FROM"))
    return Table(columns, tuple(Row(setting) for setting in shown))


_SLOT_COLUMNS = (
    Column("SLOT"), Column("PORT", 1), Column("CARD", 0), Column("POWER", 1), Column("LATCH", 5), Column("HOT-PLUG", 2),
    Column("LINK", 3), Column("ROOM 64-BIT", 4), Column("PRINTED", 5),
)


def slots(found: Sequence[Slot]) -> Table:
    """The table of `list --slots`."""
    rows = []
    for slot in found:
        card: object = ", ".join(slot.addresses)
        if not slot.addresses:
            seen = {True: "present, not on the bus", False: "empty"}
            card = slot.presence if isinstance(slot.presence, Unknown) else seen[bool(slot.presence)]
        room = slot.room.prefetchable if isinstance(slot.room, Room) else slot.room
        rows.append(Row((
            slot.name, slot.port, card, slot.power, slot.latch, _hotplug(slot),
            link(slot.link) if slot.addresses else None,
            human_size(room) if isinstance(room, int) else room, slot.printed,
        )))
    return Table(_SLOT_COLUMNS, tuple(rows))


def _hotplug(slot: Slot) -> object:
    driver = slot.hotplug.driver
    if not isinstance(driver, str):
        return driver
    can = (("surprise", slot.hotplug.surprise), ("button", slot.hotplug.button))
    words = [word for word, has in can if has is True]
    return " ".join([driver, *words])


def probed(device: Device) -> Table:
    """The page of `probe`: one fact a row, grouped as a person asks."""
    rows: list[tuple[str, object]] = [
        ("address", device.address),
        ("slot", _joined(device.slot, device.slot_printed)),
        ("model", _joined(device.vendor, device.model)),
        ("ids", f"{device.vendor_id}:{device.device_id} class {device.class_}" if device.vendor_id else None),
        ("serial", device.serial),
        ("state", device.state.value + ("" if device.sure else " (not sure)")),
        ("missing", device.missing),
        ("driver", _driver_line(device.driver)),
        ("link", link(device.link)),
        ("numa node", device.numa_node),
        ("IOMMU group", device.iommu_group),
        ("power", _power(device.power)),
        ("AER errors", _spelt(device.errors)),
    ]
    rows += [(f"BAR {bar.index}", _bar(bar)) for bar in device.bars] if isinstance(device.bars, tuple) else [
        ("BARs", device.bars)
    ]
    rows += [("node", _node(node)) for node in device.nodes] if isinstance(device.nodes, tuple) else [
        ("nodes", device.nodes)
    ]
    rows += [("note", f"{note.severity.value}: {note.text}") for note in device.notes]
    rows += [("label", f"{key}={value}") for key, value in device.labels.items()]
    if isinstance(device, Probed):
        rows += _close_rows(device)
    shown = [Row((name, _said(value)), device.state if name == "state" else None) for name, value in rows]
    return Table((Column("FACT"), Column("VALUE", wraps=True, least=20, marked=True)), tuple(shown))


def _close_rows(device: Probed) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for port in device.upstream if isinstance(device.upstream, tuple) else ():
        rows.append((str(port.kind) if isinstance(port.kind, str) else "port", _port(port)))
    if isinstance(device.iommu_peers, tuple) and device.iommu_peers:
        rows.append(("IOMMU peers", ", ".join(device.iommu_peers)))
    if isinstance(device.holders, tuple):
        rows += [("holder", _holder(holder)) for holder in device.holders] or [("holders", "none")]
    else:
        rows.append(("holders", device.holders))
    if isinstance(device.room, Room):
        rows.append(("room at the port", _room(device.room)))
        fits = device.room.fits.items()
        rows += [(f"fits {human_size(int(size))}", "yes" if ok is True else ok) for size, ok in fits]
    if isinstance(device.capabilities, tuple):
        names = [f"{c.name} [{c.offset:x}]" for c in device.capabilities]
        rows.append(("capabilities", ", ".join(names) or None))
    else:
        rows.append(("capabilities", device.capabilities))
    if isinstance(device.runtime, Mapping):
        rows += [(str(key), value) for key, value in device.runtime.items()]
    return rows


def _holder(holder: Holder) -> object:
    if holder.via == UNSEEN:
        why = holder.command.why if isinstance(holder.command, Unknown) else holder.command
        return f"perhaps more: {why}; {holder.release}"
    who = f"pid {holder.pid} {holder.command} ({holder.user})" if holder.pid else str(holder.command)
    parts = [f"{who} has {holder.node} by {holder.via}"]
    if isinstance(holder.since, float):
        parts.append(f"runs since {datetime.fromtimestamp(holder.since, timezone.utc):%Y-%m-%d %H:%M} UTC")
    parts += [f"{word} {value}" for word, value in (("job", holder.job), ("pod", holder.pod)) if isinstance(value, str)]
    parts += [holder.unit] if isinstance(holder.unit, str) and not isinstance(holder.container, str) else []
    parts += [holder.release] if isinstance(holder.release, str) else []
    return "; ".join(parts)


def _said(value: object) -> object:
    """In `probe` a fact that could not be looked at says why."""
    return f"? ({value.why})" if isinstance(value, Unknown) else value


def _joined(*parts: object) -> object:
    words = [str(part) for part in parts if isinstance(part, str)]
    return ", ".join(words) if words else parts[0]


def _driver_line(driver: Maybe[Driver]) -> object:
    if not isinstance(driver, Driver):
        return driver
    version = f" {driver.version}" if isinstance(driver.version, str) else ""
    return f"{driver.name} (module {driver.module}{version})" if isinstance(driver.module, str) else driver.name


def _power(power: Maybe[Power]) -> object:
    if not isinstance(power, Power):
        return power
    if isinstance(power.state, Unknown):
        return power.state
    return f"{power.state} ({power.runtime})" if isinstance(power.runtime, str) else power.state


def _spelt(errors: Maybe[Errors]) -> object:
    if not isinstance(errors, Errors):
        return errors
    return ", ".join(f"{plain(count)} {name}" for name, count in plain(errors).items())


def _bar(bar: Any) -> object:
    size = human_size(bar.size) if isinstance(bar.size, int) else "size not known"
    where = f"at {bar.address:#x}" if isinstance(bar.address, int) else "NO ADDRESS"
    return f"{bar.kind}, {size}, {where}"


def _node(node: Node) -> str:
    if node.mode is None:
        return f"{node.path}, missing"
    return f"{node.path} {node.major}:{node.minor} {node.owner}:{node.group} {node.mode}"


def _port(port: Port) -> str:
    parts = [port.address, str(link(port.link) or "no link")]
    if port.answering is False:
        parts.append("does not answer")
    if isinstance(port.slot, SlotControl):
        parts.append("hot-plug" if port.slot.hotplug_capable is True else "no hot-plug")
        parts += [
            word for word, seen in (
                ("power fault", port.slot.power_fault), ("power off", port.slot.power_off),
                ("latch open", port.slot.latch_open),
            ) if seen is True
        ]
    if isinstance(port.aer, Errors):
        parts.append("AER " + "/".join("?" if isinstance(n, Unknown) else str(n) for n in
                                       (port.aer.correctable, port.aer.nonfatal, port.aer.fatal)))
    return ", ".join(parts)


def _room(room: Room) -> str:
    free = [
        f"{human_size(n)} {word}" for word, n in (("32-bit", room.mem), ("64-bit", room.prefetchable))
        if isinstance(n, int)
    ]
    if isinstance(room.buses, int):
        free.append(f"{room.buses} bus numbers")
    return ", ".join(free)
