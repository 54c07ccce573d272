"""From a look at a Host to devices: what is there, and where each stands.

`machine` makes every row of `list`, `details` all that `probe` shows of one device or empty slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from . import comings, config, records, rooms
from .drain.record import FOLDER
from .errors import Exit, HotplugError
from .lifecycle import Facts, HealthRecord, kernel_says, lost_bar_sizes, port_says, stand
from .look import UNPROFILED, Look, profile_for
from .model import (
    NOT_ASKED,
    Bar,
    Capability,
    Device,
    Gap,
    Kind,
    Machine,
    Maybe,
    Port,
    Probed,
    Profile,
    Room,
    Slot,
    State,
    Unknown,
    iso_time,
)
from .notes import notes
from .readers import capabilities as config_space
from .readers import hexdump, holders, kernel, pci, runtime, slots

OFF_THE_BUS = "it was taken off the bus by its drain"


def machine(
    seen: Look, *, all_pci: bool = False, wide: bool = False, close: bool = False, rooms: bool = False
) -> Machine:
    """Every accelerator and every slot with a card that the bus does not show; each with its standing.

    `all_pci`: every function but bridges; `wide`: virtual functions too; `close`: devices as `details` makes them;
    `rooms`: what each slot can still take.
    """
    found: list[Device] = []
    gaps: list[Gap] = []
    for function in seen.functions:
        profile = profile_for(seen.profiles, function)
        if profile is None and all_pci and not function.class_.startswith("06"):  # bridges of all kinds
            profile = UNPROFILED
        if profile is None:
            continue
        virtual = isinstance(seen.host.link(f"{function.path}/physfn"), str)
        if virtual and not wide:
            continue
        found.append(row(seen, replace(function, virtual=virtual), profile, close=close))
    found += [unseen(seen, slot, close=close) for slot in seen.slots if slot.presence is True and not slot.addresses]
    found += drained(seen, found, close=close).values()
    gaps += [Gap(d.address or f"slot:{d.slot}", d.error) for d in found if d.error is not None]
    if isinstance(seen.holds, Unknown) and seen.holds.kind is not Kind.NOT_CAPTURED:
        gaps.append(Gap(FOLDER, f"whether a card is held could not be looked at: {seen.holds.why}"))
    taken, uptime = seen.moment if close else (seen.host.now(), NOT_ASKED)
    return Machine(
        host=seen.host.name, kernel=kernel.release(seen.host), devices=tuple(found),
        slots=tuple(_with_room(seen, slot) for slot in seen.slots) if rooms or close else seen.slots,
        ports=seen.ports, modules=kernel.modules(seen.host) if close else NOT_ASKED,
        taken_at=iso_time(taken), uptime=uptime,
        gaps=tuple(gaps),
    )


def details(
    seen: Look, devices: Sequence[Device], slots_named: Sequence[str] = (), sizes: Sequence[int] = ()
) -> list[Probed]:
    """The devices as `probe` shows them, and each empty slot named as a device that is absent.

    `sizes` in bytes: would BARs of that size fit below the port?
    """
    found = [_detail(seen, device) for device in devices]
    found += [empty_slot(seen, slot) for slot in seen.slots if slot.name in slots_named]
    return [replace(d, room=_room_at(seen, d, sizes)) if sizes else d for d in found]


def _detail(seen: Look, device: Device) -> Probed:
    if isinstance(device, Probed):
        return device
    if device.address is None:
        slot = next((slot for slot in seen.slots if slot.name == device.slot), None)
        return _around_slot(seen, device, _port_of(seen, slot) if slot is not None else None)
    function = seen.by_address[device.address]
    profile = profile_for(seen.profiles, function) or UNPROFILED
    virtual = isinstance(seen.host.link(f"{function.path}/physfn"), str)
    found = row(seen, replace(function, virtual=virtual), profile, close=True)
    return found if isinstance(found, Probed) else _as_probed(found)


def _room_at(seen: Look, device: Probed, sizes: Sequence[int]) -> Maybe[Room]:
    ports = device.upstream if isinstance(device.upstream, tuple) else ()
    return rooms.room(seen, ports[-1], sizes) if ports else None


def _with_room(seen: Look, slot: Slot) -> Slot:
    port = _port_of(seen, slot)
    return replace(slot, room=rooms.room(seen, port) if port is not None else None)


def _port_of(seen: Look, slot: Slot) -> Port | None:
    return seen.port(slot.port) if isinstance(slot.port, str) else None


def row(seen: Look, function: pci.Function, profile: Profile, *, close: bool) -> Device:
    """One device; a broken one is a row that says so, never a lost list."""
    try:
        return _device(seen, function, profile, close=close)
    except (ValueError, LookupError, TypeError) as error:
        blank = Probed if close else Device
        return blank(
            address=function.address, vendor_id=function.vendor_id, device_id=function.device_id,
            class_=function.class_, profile=profile.id, error=f"could not be read: {error}",
        )


def _device(seen: Look, function: pci.Function, profile: Profile, *, close: bool) -> Device:
    host = seen.host
    power = pci.power(host, function)
    raw = pci.config(host, function, power)
    answers = pci.answering(raw, function)
    usable = raw if answers is True else Unknown("it does not answer", Kind.IO) if answers is False else raw
    port = seen.port_above(function)
    slot = seen.slot_of(function)
    driver = kernel.driver(host, function)
    index = runtime.index_of(host, function.path, profile)
    device = Device(
        profile=None if profile is UNPROFILED else profile.id,
        address=function.address,
        slot=slot.name if slot is not None else None,
        slot_printed=slot.printed if slot is not None else None,
        vendor=profile.name if profile.id not in ("generic", UNPROFILED.id) else None,
        vendor_id=function.vendor_id,
        device_id=function.device_id,
        model=profile.models.get(function.device_id),
        class_=function.class_,
        serial=pci.serial(host, function, usable),
        uuid=runtime.uuid(host, function.path, profile),
        driver=driver,
        link=pci.limited(pci.link(host, function, power, usable), port.link if port is not None else None),
        bars=pci.bars(host, function, usable),
        numa_node=kernel.numa_node(host, function),
        iommu_group=kernel.iommu_group(host, function),
        nodes=runtime.nodes(host, function.path, profile, index if isinstance(index, tuple) else ()),
        power=power,
        errors=pci.errors(host, function),
        first_seen=None,
    )
    health: Maybe[HealthRecord] = seen.checked.get(function.address)
    if profile.handshake is not None and health is None:
        health = records.health(host, device, seen.boot_id)
    firmware = host.text(f"{function.path}/{profile.initialised.attribute}") if profile.initialised else None
    hold = seen.drains.get(seen.place(function)) if seen.drains else None
    facts = Facts(
        device=device, profile=profile, answering=answers, port=port, firmware=firmware,
        health=health, readiness=seen.settings.readiness, held=hold.held if hold is not None else None,
        hold_complete=hold is not None and hold.goal == "unbind" and driver is None and hold.unbound,
    )
    standing = stand(facts)
    if standing.sure and standing.missing and standing.rung in (State.IDENTIFIED, State.MAPPED):
        # Only a device that is stuck below its driver needs the kernel's word, and reading the log costs most.
        lines = seen.kernel_log if isinstance(seen.kernel_log, tuple) else ()
        device = replace(device, bars=_with_sizes(device.bars, lost_bar_sizes(lines, function.address)))
        standing = stand(replace(facts, device=device, kernel_says=kernel_says(lines, function.address)))
    device = replace(
        device, state=standing.state, rung=standing.rung, held=standing.held, missing=standing.missing,
        sure=standing.sure,
    )
    device = replace(device, notes=notes(device), labels=config.labels(seen.settings, device))
    return _closer(seen, function, profile, device, raw, port, health) if close else device


def _with_sizes(bars: Maybe[tuple[Bar, ...]], sizes: Mapping[int, int]) -> Maybe[tuple[Bar, ...]]:
    if not isinstance(bars, tuple):
        return bars
    return tuple(replace(b, size=sizes[b.index]) if b.size is None and b.index in sizes else b for b in bars)


def _closer(
    seen: Look, function: pci.Function, profile: Profile, device: Device, raw: Maybe[bytes], port: Port | None,
    health: Maybe[HealthRecord],
) -> Probed:
    """What only `probe` shows of a device."""
    upstream = tuple(p for address in function.above if (p := seen.port(address)) is not None)
    card = holders.go_together(seen.host, function, seen.functions)
    passing, read_in = comings.facts(seen, function, profile, device, raw)
    return _as_probed(
        device,
        upstream=upstream,
        capabilities=_capabilities(raw),
        iommu_peers=kernel.iommu_peers(seen.host, function, device.iommu_group),
        holders=holders.of_card(seen.host, card, device.nodes, profile.drivers),
        runtime={**runtime.versions(seen.host, profile), **_health(health), **passing},
        room=rooms.room(seen, port) if port is not None else None,
        sources={**_sources(function, device), **read_in},
    )


def _health(record: Maybe[HealthRecord]) -> dict[str, Any]:
    """The last health check of this card and binding, as facts for rules."""
    if not isinstance(record, HealthRecord) or not record.current:
        return {}
    return {"health_check": "passed" if record.passed else "failed", "health_said": record.said}


def _capabilities(raw: Maybe[bytes]) -> Maybe[tuple[Capability, ...]]:
    """All of them, or why not all could be read: half a list would pass for the whole."""
    if not isinstance(raw, bytes):
        return raw
    why = config_space.short(raw)
    return config_space.capabilities(raw) if why is None else why


def _as_probed(device: Device, **more: Any) -> Probed:
    return Probed(**{f.name: getattr(device, f.name) for f in fields(device)}, **more)


def _sources(function: pci.Function, device: Device) -> dict[str, str]:
    """Where each fact was read."""
    here = function.path
    found = {
        "vendor_id": f"{here}/vendor", "device_id": f"{here}/device", "class": f"{here}/class",
        "driver": f"{here}/driver", "link": f"{here}/current_link_width", "bars": f"{here}/resource",
        "numa_node": f"{here}/numa_node", "iommu_group": f"{here}/iommu_group", "power": f"{here}/power_state",
        "errors": f"{here}/aer_dev_fatal", "serial": f"{here}/config", "capabilities": f"{here}/config",
        "holders": "/proc/PID/fd", "runtime.stale_handles": "/proc/PID/fd",
    }
    if isinstance(device.slot, str):
        found["slot"] = f"{slots.SLOTS}/{device.slot}/address"
    return found


def unseen(seen: Look, slot: Slot, *, close: bool) -> Device:
    """A card that only the slot sees."""
    port = _port_of(seen, slot)
    why = f"identified: the slot has a card that the bus does not show; {port_says(port)}"
    device = _without_function(slot, State.DETECTED, why, sure=True)
    if isinstance(slot.path, str) and (hold := seen.drains.get(slot.path)) is not None:
        device = replace(device, state=State.DRAINED, held=hold.held)
    return _around_slot(seen, device, port) if close else device


def drained(seen: Look, found: Sequence[Device], *, close: bool) -> dict[str, Device]:
    """By its place, a row for each drain whose card is off the bus and out of its slot, or in none."""
    if not seen.drains:
        return {}
    there = {seen.place(seen.by_address[d.address]) for d in found if d.address in seen.by_address}
    named = {device.slot for device in found if device.address is None}
    rows: dict[str, Device] = {}
    for key, hold in seen.drains.items():
        slot = next((slot for slot in seen.slots if slot.path == key), None)
        if key in there or (slot is not None and slot.name in named):
            continue
        device = replace(
            _without_function(slot, State.REMOVED, OFF_THE_BUS, sure=True), state=State.DRAINED, held=hold.held,
            model=hold.card.get("model"), serial=None if seen.host.redacted else hold.card.get("serial"),
        )
        rows[key] = _around_slot(seen, device, _port_of(seen, slot) if slot is not None else None) if close else device
    return rows


def empty_slot(seen: Look, slot: Slot) -> Probed:
    """`probe slot:N` of an empty slot: a device that is absent, and the port that waits for it."""
    known = slot.presence is False
    device = _without_function(
        slot, State.ABSENT, "a card" if known else "a card, as far as can be seen", sure=known)
    return _around_slot(seen, device, _port_of(seen, slot))


def _without_function(slot: Slot | None, state: State, missing: str, *, sure: bool) -> Device:
    """A row for a slot: there is no function, so whatever is read of one is not there."""
    return Device(
        profile=None, slot=slot.name if slot is not None else None,
        slot_printed=slot.printed if slot is not None else None, vendor=None, vendor_id=None, device_id=None,
        model=None, class_=None, serial=None, uuid=None, driver=None, link=None, bars=None, numa_node=None,
        iommu_group=None, nodes=None, state=state, rung=state, missing=missing, sure=sure, power=None, errors=None,
        first_seen=None,
    )


def _around_slot(seen: Look, device: Device, port: Port | None) -> Probed:
    function = seen.by_address.get(port.address) if port is not None else None
    above = (*function.above, function.address) if function is not None else ()
    return _as_probed(
        device, upstream=tuple(p for a in above if (p := seen.port(a)) is not None), capabilities=None,
        iommu_peers=None, holders=None, runtime=None, room=rooms.room(seen, port) if port is not None else None,
    )


def hex_dumps(seen: Look, devices: Sequence[Device]) -> list[str]:
    """Config space of each device in the form of `lspci -xxxx`."""
    dumps = []
    for device in devices:
        function = seen.by_address.get(device.address or "")
        raw = pci.config(seen.host, function, pci.power(seen.host, function)) if function is not None else None
        if isinstance(raw, bytes):
            dumps.append(f"{device.address} {device.vendor_id}:{device.device_id}\n{hexdump.hex_dump(raw)}\n")
        else:
            why = raw.why if isinstance(raw, Unknown) else "it is not on the bus"
            raise HotplugError(
                f"no config space of {device.address or device.slot}", why=why, hint="hotplugctl list",
                exit=Exit.DENIED if isinstance(raw, Unknown) and raw.kind is Kind.DENIED else Exit.UNKNOWN,
            )
    return dumps
