"""From a Host to devices, slots and ports: what is there, and where each stands.

`look` lists the bus once; `machine` makes every row of `list`, `detail` all that `probe` shows of one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from . import config, records
from .errors import Exit, HotplugError
from .host import Host, Ran
from .host.tree import Bundle
from .lifecycle import Facts, kernel_says, lost_bar_sizes, port_says, stand
from .model import (
    NOT_ASKED,
    Bar,
    Device,
    Gap,
    Kind,
    LogLine,
    Machine,
    Match,
    Maybe,
    Port,
    Probed,
    Profile,
    Room,
    Slot,
    State,
    Unknown,
)
from .notes import notes
from .readers import capabilities as config_space
from .readers import hexdump, holders, kernel, logs, pci, runtime, slots
from .rules import schema

# Read at every capture, for the rules of tomorrow, even if no reader of today asks.
SUPERSET = ("/proc/iomem", "/proc/cmdline", "/proc/modules", "/proc/interrupts", "/proc/version", "/etc/os-release")
SUPERSET_BYTES = 1 << 20

# What --all-pci shows beside accelerators: nothing is expected of it.
UNPROFILED = Profile(id="none", name="no accelerator", match=Match(), any_driver=True)


@dataclass
class Look:
    """One look at a machine: the bus listed once, ports and the kernel log read when first asked for."""

    host: Host
    settings: config.Settings
    profiles: Sequence[Profile]
    functions: tuple[pci.Function, ...] = ()
    _ports: dict[str, Port] = field(default_factory=dict)

    @cached_property
    def by_address(self) -> dict[str, pci.Function]:
        """Functions by address."""
        return {f.address: f for f in self.functions}

    @cached_property
    def kernel_log(self) -> Maybe[tuple[LogLine, ...]]:
        """The kernel log, parsed."""
        return logs.kernel(self.host)

    @cached_property
    def boot_id(self) -> Maybe[str]:
        """Which boot this is."""
        return kernel.boot_id(self.host)

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports looked at so far."""
        return tuple(self._ports.values())

    def port(self, address: str) -> Port | None:
        """A port; None when the function above is no port (a host bridge)."""
        function = self.by_address.get(address)
        if function is None or not function.is_bridge:
            return None
        if address not in self._ports:
            self._ports[address] = pci.port(self.host, function)
        return self._ports[address]

    def port_above(self, function: pci.Function) -> Port | None:
        """The nearest port above."""
        return self.port(function.above[-1]) if function.above else None

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, filled and empty."""
        if not slots.names(self.host):
            return ()
        ports = {f.address: port for f in self.functions if (port := self.port(f.address)) is not None}
        return slots.slots(self.host, self.functions, ports, self.settings.slots)

    def slot_of(self, function: pci.Function) -> Slot | None:
        """The slot a function is seated in, directly or behind a switch on the card."""
        above = set(function.above)
        found = [s for s in self.slots if function.address in s.addresses or (s.port is not None and s.port in above)]
        return found[-1] if found else None


def look(host: Host, settings: config.Settings, profiles: Sequence[Profile]) -> Look:
    """List the bus. Raises HotplugError when it cannot be listed at all."""
    functions = pci.functions(host)
    if isinstance(functions, Unknown):
        denied = functions.kind is Kind.DENIED
        raise HotplugError(
            "cannot list the PCI bus", why=functions.why, hint="run as root" if denied else "is sysfs mounted at /sys?",
            exit=Exit.DENIED if denied else Exit.UNKNOWN,
        )
    return Look(host, settings, profiles, functions)


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
        if profile is None and all_pci and not function.is_bridge:
            profile = UNPROFILED
        if profile is None:
            continue
        virtual = isinstance(seen.host.link(f"{function.path}/physfn"), str)
        if virtual and not wide:
            continue
        found.append(_row(seen, replace(function, virtual=virtual), profile, close=close))
    found += [_unseen(seen, slot, close=close) for slot in seen.slots if slot.presence is True and not slot.addresses]
    gaps += [Gap(d.address or f"slot:{d.slot}", d.error) for d in found if d.error is not None]
    return Machine(
        host=seen.host.name, kernel=kernel.release(seen.host), devices=tuple(found),
        slots=tuple(_with_room(seen, slot) for slot in seen.slots) if rooms or close else seen.slots,
        ports=seen.ports, modules=kernel.modules(seen.host) if close else NOT_ASKED,
        taken_at=iso_time(seen.host.now()), gaps=tuple(gaps),
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
        slot = next(slot for slot in seen.slots if slot.name == device.slot)
        return _around_slot(seen, device, _port_of(seen, slot))
    function = seen.by_address[device.address]
    profile = profile_for(seen.profiles, function) or UNPROFILED
    virtual = isinstance(seen.host.link(f"{function.path}/physfn"), str)
    row = _row(seen, replace(function, virtual=virtual), profile, close=True)
    return row if isinstance(row, Probed) else _as_probed(row)


def _room_at(seen: Look, device: Probed, sizes: Sequence[int]) -> Maybe[Room]:
    ports = device.upstream if isinstance(device.upstream, tuple) else ()
    return room(seen, ports[-1], sizes) if ports else None


def _with_room(seen: Look, slot: Slot) -> Slot:
    port = _port_of(seen, slot)
    return replace(slot, room=room(seen, port) if port is not None else None)


def _port_of(seen: Look, slot: Slot) -> Port | None:
    return seen.port(slot.port) if isinstance(slot.port, str) else None


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


def shaken(seen: Look, found: Machine) -> Machine:
    """The machine after each card's health check has run and its result was remembered."""
    if not seen.host.live:
        raise HotplugError(
            "--handshake cannot be used with --root", why="a captured machine runs nothing", hint="leave --root out",
            exit=Exit.USAGE,
        )
    devices = []
    for device in found.devices:
        function = seen.by_address.get(device.address or "")
        profile = profile_for(seen.profiles, function) if function is not None else None
        if function is None or profile is None or profile.handshake is None or device.rung is not State.INITIALISED:
            devices.append(device)
            continue
        records.keep_health(device, seen.boot_id, health_check(seen, function, profile), seen.host.now())
        devices.append(_row(seen, function, profile, close=isinstance(device, Probed)))
    return replace(found, devices=tuple(devices))


def health_check(seen: Look, function: pci.Function, profile: Profile) -> tuple[bool, str]:
    """Run the profile's second handshake: (passed, what it said). All its passes must succeed."""
    check = profile.handshake
    if check is None:
        return True, "the profile has no health check"
    index = runtime.index_of(seen.host, function.path, profile)
    for number in range(check.passes):
        if number:
            seen.host.pause(check.interval)
        for one in index if isinstance(index, tuple) and index else ("",):
            argv = tuple(part.format(index=one, address=function.address) for part in check.argv)
            answer = seen.host.run(argv, check.timeout)
            if not isinstance(answer, Ran):
                return False, answer.why if isinstance(answer, Unknown) else f"there is no {argv[0]} here"
            if answer.status != 0:
                return False, f"{argv[0]} ended with {answer.status}: {(answer.stderr or answer.stdout).strip()[-200:]}"
            if check.expect is not None and not re.search(check.expect, answer.stdout):
                return False, f"{argv[0]} does not say {check.expect!r}"
    return True, "passed"


def profiles_of(host: Host) -> tuple[Profile, ...]:
    """The profiles that travelled in a bundle; none elsewhere."""
    manifest = host.manifest if isinstance(host, Bundle) else {}
    try:
        return tuple(schema.profile_from(plain) for plain in manifest.get("profiles", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HotplugError(
            "cannot use the profiles of the bundle", why=str(error), hint="have it captured again", exit=Exit.UNKNOWN
        ) from error


def kept(seen: Look) -> dict[str, Any]:
    """What a bundle carries beside the answers: the profiles in force, as data."""
    return {"profiles": [schema.profile_to(profile) for profile in seen.profiles]}


def profile_for(profiles: Sequence[Profile], function: pci.Function) -> Profile | None:
    """The first profile that covers the function; generic ones (any driver) come last."""
    ids = (function.vendor_id, function.device_id, function.class_)
    return next((p for p in sorted(profiles, key=lambda p: p.any_driver) if p.match.covers(*ids)), None)


def _row(seen: Look, function: pci.Function, profile: Profile, *, close: bool) -> Device:
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
        uuid=None,
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
    health = records.health(host, device, seen.boot_id) if profile.handshake is not None else None
    firmware = host.text(f"{function.path}/{profile.initialised.attribute}") if profile.initialised else None
    facts = Facts(
        device=device, profile=profile, answering=True if pci.asleep(power) else answers, port=port, firmware=firmware,
        health=health, readiness=seen.settings.readiness,
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
    return _closer(seen, function, profile, device, raw, port) if close else device


def _with_sizes(bars: Maybe[tuple[Bar, ...]], sizes: Mapping[int, int]) -> Maybe[tuple[Bar, ...]]:
    if not isinstance(bars, tuple):
        return bars
    return tuple(replace(b, size=sizes[b.index]) if b.size is None and b.index in sizes else b for b in bars)


def _closer(
    seen: Look, function: pci.Function, profile: Profile, device: Device, raw: Maybe[bytes], port: Port | None
) -> Probed:
    """What only `probe` shows of a device."""
    upstream = tuple(p for address in function.above if (p := seen.port(address)) is not None)
    nodes = device.nodes if isinstance(device.nodes, tuple) else ()
    return _as_probed(
        device,
        upstream=upstream,
        capabilities=config_space.capabilities(raw) if isinstance(raw, bytes) else raw,
        iommu_peers=kernel.iommu_peers(seen.host, function, device.iommu_group),
        holders=holders.holders(seen.host, tuple(node.path for node in nodes)),
        runtime=runtime.versions(seen.host, profile),
        room=room(seen, port) if port is not None else None,
        sources=_sources(function, device),
    )


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
    }
    if isinstance(device.slot, str):
        found["slot"] = f"{slots.SLOTS}/{device.slot}/address"
    return found


def room(seen: Look, port: Port, sizes: Sequence[int] = ()) -> Room:
    """What a port can still take; `sizes` in bytes are asked of its prefetchable window."""
    taken = {
        f.address: _ranges(seen, f) for f in seen.functions if f.above and f.above[-1] == port.address
    }
    found = slots.room(port, seen.functions, taken)
    return replace(found, fits={str(size): _fits(found, size) for size in sizes})


def _ranges(seen: Look, function: pci.Function) -> tuple[tuple[int, int], ...]:
    """Address ranges a function occupies: its BARs, and its windows where it is a bridge."""
    power = pci.power(seen.host, function)
    bars = pci.bars(seen.host, function, pci.config(seen.host, function, power))
    placed = [
        (b.address, b.address + b.size - 1) for b in (bars if isinstance(bars, tuple) else ())
        if isinstance(b.address, int) and isinstance(b.size, int) and b.kind != "io"
    ]
    windows = pci.windows(seen.host, function) if function.is_bridge else ()
    return (*placed, *((w.start, w.end) for w in (windows if isinstance(windows, tuple) else ()) if w.kind != "io"))


def _fits(room: Room, size: int) -> Maybe[bool]:
    """A BAR larger than the free range may still fit: the kernel enlarges the window of an empty port if it can."""
    free = room.prefetchable
    if not isinstance(free, int):
        return free
    return True if size <= free else Unknown("not in the window as it is; the kernel may enlarge it", Kind.IO)


def _unseen(seen: Look, slot: Slot, *, close: bool) -> Device:
    """A card that only the slot sees."""
    port = _port_of(seen, slot)
    device = Device(
        profile=None, address=None, slot=slot.name, slot_printed=slot.printed, vendor=None, vendor_id=None,
        device_id=None, model=None, class_=None, serial=None, uuid=None, driver=None, link=None, bars=None,
        numa_node=None, iommu_group=None, nodes=None, state=State.DETECTED, rung=State.DETECTED, power=None,
        errors=None, first_seen=None, sure=True,
        missing=f"identified: the slot has a card that the bus does not show; {port_says(port)}",
    )
    return _around_slot(seen, device, port) if close else device


def empty_slot(seen: Look, slot: Slot) -> Probed:
    """`probe slot:N` of an empty slot: a device that is absent, and the port that waits for it."""
    port = _port_of(seen, slot)
    device = Device(
        profile=None, address=None, slot=slot.name, slot_printed=slot.printed, vendor=None, vendor_id=None,
        device_id=None, model=None, class_=None, serial=None, uuid=None, driver=None, link=None, bars=None,
        numa_node=None, iommu_group=None, nodes=None, state=State.ABSENT, rung=State.ABSENT, power=None, errors=None,
        first_seen=None, sure=slot.presence is False,
        missing="a card" if slot.presence is False else "a card, as far as can be seen",
    )
    return _around_slot(seen, device, port)


def _around_slot(seen: Look, device: Device, port: Port | None) -> Probed:
    function = seen.by_address.get(port.address) if port is not None else None
    above = (*function.above, function.address) if function is not None else ()
    return _as_probed(
        device, upstream=tuple(p for a in above if (p := seen.port(a)) is not None), capabilities=None,
        iommu_peers=None, holders=None, runtime=None, room=room(seen, port) if port is not None else None,
    )


def superset(host: Host) -> None:
    """What every capture holds beside the answers of today's readers: all config space, memory map, kernel log."""
    for path in SUPERSET:
        host.data(path, SUPERSET_BYTES)
    host.log("kernel")
    functions = pci.functions(host)
    for function in functions if isinstance(functions, tuple) else ():
        pci.config(host, function, pci.power(host, function))
        host.text(f"{function.path}/resource")


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 with milliseconds, UTC."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
