"""PCI functions as sysfs shows them: identity, BARs, link, power, errors, and the ports above.

Sources: Documentation/ABI/testing/sysfs-bus-pci and drivers/pci/pci-sysfs.c (Linux 6.1 and 6.12).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace

from ..host import Host
from ..model import ADDRESS, Bar, Errors, Kind, Link, Maybe, Port, Power, Unknown, Window
from . import capabilities as config_space

DEVICES = "/sys/bus/pci/devices"
CONFIG_BYTES = 4096
BRIDGE_CLASS = "0604"
ASLEEP = Unknown("the device sleeps, and reading would wake it", Kind.ASLEEP)

# include/linux/ioport.h: flag bits of a `resource` line
IO, MEM, PREFETCH, MEM_64, UNSET = 0x100, 0x200, 0x2000, 0x100000, 0x20000000
FIRST_WINDOW = 7  # lines 0-5 BARs, 6 ROM; after them the windows of a bridge (VF BARs only on endpoints)
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
_TOTAL = re.compile(r"TOTAL_ERR_\w+ (\d+)")


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function: its address, its real sysfs directory, and its cached ids (lower-case hex, class six digits)."""

    address: str
    path: str
    vendor_id: str
    device_id: str
    class_: str
    virtual: bool = False

    @property
    def is_bridge(self) -> bool:
        """Is it a PCI-to-PCI bridge (a port)?"""
        return self.class_.startswith(BRIDGE_CLASS)

    @property
    def above(self) -> tuple[str, ...]:
        """Addresses of the ports above, the root port first."""
        return tuple(part for part in self.path.split("/")[4:-1] if ":" in part and "." in part)


def functions(host: Host) -> tuple[Function, ...] | Unknown:
    """Every function on the bus, in address order. Unknown when the bus cannot be listed at all."""
    names = host.names(DEVICES)
    if not isinstance(names, tuple):
        return Unknown(f"{DEVICES} is not there", Kind.IO) if names is None else names
    found = (function(host, name) for name in names if ADDRESS.fullmatch(name))
    return tuple(f for f in found if f is not None)


def function(host: Host, address: str) -> Function | None:
    """One function; None when it is not on the bus (any more)."""
    link = host.link(f"{DEVICES}/{address}")
    if not isinstance(link, str):
        return None
    path = posixpath.normpath(f"{DEVICES}/{link}")
    ids = [host.text(f"{path}/{name}") for name in ("vendor", "device", "class")]
    if not all(isinstance(value, str) for value in ids):
        return None  # it left between the listing and this look
    vendor, device, class_ = (str(value).removeprefix("0x").lower() for value in ids)
    return Function(address, path, vendor, device, class_.zfill(6))


def power(host: Host, function: Function) -> Power:
    """The kernel's idea of the power state; reading it wakes nothing."""
    return Power(host.text(f"{function.path}/power_state"), host.text(f"{function.path}/power/runtime_status"))


def asleep(power: Power) -> bool:
    """Would reading config space wake the device, or read nonsense?"""
    return power.state == "D3cold" or power.runtime in ("suspended", "suspending")


def config(host: Host, function: Function, power: Power) -> Maybe[bytes]:
    """Config space as far as this user may read it (64 bytes without CAP_SYS_ADMIN); never of a sleeping device."""
    return ASLEEP if asleep(power) else host.data(f"{function.path}/config", CONFIG_BYTES)


def answering(config: Maybe[bytes], function: Function) -> bool | Unknown:
    """Does the function answer at its address, with the ids it was enumerated with?

    A virtual function's ids read all ones by design (SR-IOV spec 3.4.1.1), so it counts as answering.
    """
    if isinstance(config, Unknown):
        return config
    if config is None or len(config) < 4:
        return Unknown("config space could not be read", Kind.IO)
    return function.virtual or config_space.answering(config)


def bars(host: Host, function: Function, config: Maybe[bytes]) -> tuple[Bar, ...] | Unknown:
    """The BARs the card has. One that found no place has `assigned` False.

    The kernel zeroes the whole `resource` line of a BAR it could not place (drivers/pci/setup-bus.c, reset_resource),
    and so it looks like a BAR that does not exist; the register in config space tells them apart where its type bits
    are not zero.
    """
    text = host.text(f"{function.path}/resource")
    if isinstance(text, Unknown) and text.kind is Kind.NOT_CAPTURED and isinstance(config, bytes):
        return _from_registers(config)
    if not isinstance(text, str):
        return Unknown("its resource file is gone", Kind.IO) if text is None else text
    try:
        lines = [_resource(line) for line in text.splitlines()[:6]]
    except ValueError:
        return Unknown("its resource file is damaged", Kind.IO)
    registers = config_space.bar_registers(config) if isinstance(config, bytes) else config
    kinds = {r.index: r.kind for r in registers} if isinstance(registers, tuple) else {}
    found = []
    for index, (start, end, flags) in enumerate(lines):
        if flags & (IO | MEM) and end:
            placed = not flags & UNSET
            found.append(Bar(index, end - start + 1, start if placed else None, _bar_kind(flags), placed))
        elif index in kinds:
            found.append(Bar(index, None, None, kinds[index], False))
    return tuple(found)


def _from_registers(config: bytes) -> tuple[Bar, ...] | Unknown:
    """Of a config space dump: which BARs are in use and where. How large they are, the registers do not tell."""
    registers = config_space.bar_registers(config)
    if not isinstance(registers, tuple):
        return Unknown("its header holds no BARs", Kind.IO) if registers is None else registers
    unknown = Unknown("a dump of registers does not tell sizes", Kind.NOT_CAPTURED)
    return tuple(Bar(r.index, unknown, r.address, r.kind, r.address is not None) for r in registers)


def _resource(line: str) -> tuple[int, int, int]:
    """`start end flags` in hex. Raises ValueError for anything else."""
    start, end, flags = (int(n, 16) for n in line.split())
    return start, end, flags


def _bar_kind(flags: int) -> str:
    if flags & IO:
        return "io"
    return "mem64pref" if flags & PREFETCH and flags & MEM_64 else "mem64" if flags & MEM_64 else "mem32"


def windows(host: Host, function: Function) -> tuple[Window, ...] | Unknown:
    """The windows of a bridge that are open."""
    text = host.text(f"{function.path}/resource")
    if not isinstance(text, str):
        return Unknown("its resource file is gone", Kind.IO) if text is None else text
    try:
        lines = [_resource(line) for line in text.splitlines()[FIRST_WINDOW:]]
    except ValueError:
        return Unknown("its resource file is damaged", Kind.IO)
    found = []
    for start, end, flags in lines:
        if flags & (IO | MEM) and end > start:
            kind = "io" if flags & IO else "prefetchable" if flags & PREFETCH else "mem"
            found.append(Window(kind, start, end, end - start + 1))
    return tuple(found)


def link(host: Host, function: Function, power: Power, config: Maybe[bytes]) -> Maybe[Link]:
    """This end of the link; None for a function that has none. Limits come from `limited`."""
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    if asleep(power):
        return ASLEEP
    speed, width, max_speed, max_width = (host.text(f"{function.path}/{name}") for name in names)
    from_config = config_space.link(config) if isinstance(config, bytes) else config
    if max_speed is None and max_width is None:  # no such files before Linux 4.13, and on conventional PCI
        return None if isinstance(from_config, Unknown) else from_config
    seen = Link(_speed(speed), _width(width), _speed(max_speed), _width(max_width))
    if isinstance(from_config, Link):
        # `Unknown speed`, 0 and 63 lanes are what the files say when they could not read (drivers/pci/pci-sysfs.c).
        fill = {
            name: getattr(from_config, name) for name in ("speed_gts", "width", "max_speed_gts", "max_width")
            if isinstance(getattr(seen, name), Unknown)
        }
        seen = replace(seen, **fill)
    return seen


def _speed(text: Maybe[str]) -> Maybe[float]:
    if not isinstance(text, str):
        return text
    match = _SPEED.match(text)
    return float(match[1]) if match else Unknown(f"the kernel says {text!r}", Kind.IO)


def _width(text: Maybe[str]) -> Maybe[int]:
    if not isinstance(text, str):
        return text
    lanes = int(text) if text.isdecimal() and len(text) < 4 else 0
    return lanes if 0 < lanes < 63 else Unknown(f"the kernel says {text!r}", Kind.IO)


def limited(card: Maybe[Link], port: Maybe[Link]) -> Maybe[Link]:
    """The card's link with what both ends together can do. Without a port above there is no other end."""
    if not isinstance(card, Link):
        return card
    if not isinstance(port, Link):
        answer: Maybe[float] = port if isinstance(port, Unknown) else None
        return replace(card, limit_speed_gts=answer, limit_width=None if answer is None else port, limited_by=None)
    speed, width = _lower(card.max_speed_gts, port.max_speed_gts), _lower(card.max_width, port.max_width)
    sides = {_lower_side(card.max_speed_gts, port.max_speed_gts), _lower_side(card.max_width, port.max_width)} - {None}
    by = sides.pop() if len(sides) == 1 else "both" if sides else None
    return replace(card, limit_speed_gts=speed, limit_width=None if width is None else _whole(width), limited_by=by)


def _lower(a: Maybe[float], b: Maybe[float]) -> Maybe[float]:
    for side in (a, b):
        if side is None or isinstance(side, Unknown):
            return side
    return min(a, b)  # type: ignore[type-var]


def _whole(value: float | Unknown) -> int | Unknown:
    return value if isinstance(value, Unknown) else int(value)


def _lower_side(card: Maybe[float], port: Maybe[float]) -> str | None:
    if not isinstance(card, int | float) or not isinstance(port, int | float) or card == port:
        return None
    return "card" if card < port else "port"


def errors(host: Host, function: Function, prefix: str = "aer_dev") -> Maybe[Errors]:
    """AER counters since enumeration; None where the device or the firmware keeps them from the kernel."""
    counts = {
        name: _total(host.text(f"{function.path}/{prefix}_{name}")) for name in ("correctable", "nonfatal", "fatal")
    }
    return None if all(count is None for count in counts.values()) else Errors(**counts)


def _total(text: Maybe[str]) -> Maybe[int]:
    if not isinstance(text, str):
        return text
    match = _TOTAL.search(text)
    return int(match[1]) if match else Unknown("no TOTAL line in the AER counters", Kind.IO)


def serial(host: Host, function: Function, config: Maybe[bytes]) -> Maybe[str]:
    """The card's serial: the kernel's attribute (6.18), else the DSN capability in config space."""
    said = host.text(f"{function.path}/serial_number")
    if isinstance(said, str) and said:
        return said
    if not isinstance(config, bytes):
        return config
    number = config_space.serial(config)
    if number is None and host.redacted and isinstance(config_space.find(config, config_space.DSN, extended=True), int):
        return Unknown("zeroed by redaction", Kind.NOT_CAPTURED)
    return number


def port(host: Host, function: Function) -> Port:
    """A port, from its attributes and, as far as they may be read, its registers."""
    here = power(host, function)
    raw = config(host, function, here)
    flags = config_space.link_flags(raw) if isinstance(raw, bytes) else raw
    driver = host.link(f"{function.path}/driver")
    answers = answering(raw, function)
    usable = raw if isinstance(raw, bytes) and answers is True else None
    why: Maybe[bytes] = usable if usable is not None else (
        Unknown("the port does not answer", Kind.IO) if answers is False else raw
    )
    return Port(
        address=function.address,
        kind=config_space.port_type(why) if isinstance(why, bytes) else why,
        driver=posixpath.basename(driver) if isinstance(driver, str) else driver,
        secondary_bus=_number(host.text(f"{function.path}/secondary_bus_number")),
        subordinate_bus=_number(host.text(f"{function.path}/subordinate_bus_number")),
        link=link(host, function, here, why),
        link_disabled=flags if flags is None or isinstance(flags, Unknown) else flags.disabled,
        link_training=flags if flags is None or isinstance(flags, Unknown) else flags.training,
        link_active=flags if flags is None or isinstance(flags, Unknown) else flags.active,
        windows=windows(host, function),
        slot=config_space.slot_control(why) if isinstance(why, bytes) else why,
        aer=errors(host, function),
        dpc=config_space.dpc(why) if isinstance(why, bytes) else why,
        power=here,
        answering=answers,
    )


def _number(text: Maybe[str]) -> Maybe[int]:
    if not isinstance(text, str):
        return text
    return int(text) if text.isdecimal() and len(text) < 6 else Unknown(f"not a number: {text[:20]!r}", Kind.IO)
