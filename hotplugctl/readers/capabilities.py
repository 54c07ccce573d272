"""Config-space bytes in, capabilities and register values out. Never a device: a dump reads like a live card.

A caller without CAP_SYS_ADMIN gets 64 bytes of config space, and every capability lies beyond them: what needs more is
then Unknown, never absent. All ones is how a read from a vanished function completes, so nothing is decoded out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..model import Capability, Dpc, Kind, Link, Maybe, SlotControl, Unknown
from .header import HEADER, answering, bar_registers, identity, number, unreadable
from .registers import (
    EXPRESS,
    EXPRESS_2,
    EXPRESS_LINK,
    EXPRESS_SLOT,
    EXTENDED_FIELDS,
    EXTENDED_NAMES,
    LINKLESS,
    REBAR_PAIR,
    STANDARD_FIELDS,
    STANDARD_NAMES,
    Field,
)

__all__ = [
    "AerStatus", "LinkFlags", "Resizable", "Sriov", "aer_status", "answering", "bar_registers", "capabilities", "dpc",
    "find", "identity", "link", "link_flags", "port_type", "rebar", "serial", "short", "slot_control", "sriov",
    "without_serial",
]

EXPRESS_ID, DSN, SRIOV, REBAR, DPC, AER = 0x10, 0x03, 0x10, 0x15, 0x1D, 0x01
CARDBUS_HEADER = 128             # what anybody may read of a CardBus bridge (drivers/pci/pci-sysfs.c)
EXTENDED = 256                   # where extended capabilities begin
LIST_POINTER = {0: 0x34, 1: 0x34, 2: 0x14}     # by header type
MOST_STANDARD = 48               # as many as fit between 0x40 and 0x100; also the kernel's guard against loops

BEYOND_HEADER = Unknown("config space beyond 64 bytes needs CAP_SYS_ADMIN", Kind.DENIED)
BEYOND_256 = Unknown("extended config space (from byte 256) was not read", Kind.NOT_CAPTURED)
CUT = Unknown("config space ends in the middle of what was asked", Kind.NOT_CAPTURED)


@dataclass(frozen=True, slots=True)
class LinkFlags:
    """What a link is doing. `active` is None where the port cannot report it; `disabled` is set by ports only."""

    disabled: bool
    training: bool
    active: bool | None
    reports_active: bool


@dataclass(frozen=True, slots=True)
class AerStatus:
    """Errors standing in the AER registers, by the kernel's short names. `fatal` is the fatal part of the first."""

    uncorrectable: tuple[str, ...]
    fatal: tuple[str, ...]
    correctable: tuple[str, ...]
    masked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sriov:
    """The SR-IOV capability of a physical function: virtual functions possible (`total`) and made (`number`)."""

    enabled: bool
    total: int
    number: int
    offset: int
    stride: int
    vf_device_id: str


@dataclass(frozen=True, slots=True)
class Resizable:
    """A resizable BAR: `size` now, and the `sizes` the card offers, in bytes."""

    index: int
    size: int
    sizes: tuple[int, ...]


def short(config: bytes) -> Unknown | None:
    """Why `capabilities` may be less than all there is; None when the lists end inside these bytes."""
    if (why := unreadable(config)) is not None:
        return why
    return next((why for _, why in (_standard(config), _extended(config)) if why is not None), None)


def capabilities(config: bytes) -> tuple[Capability, ...]:
    """Every capability in these bytes, standard ones first, in list order; `short` says whether there may be more."""
    if unreadable(config) is not None:
        return ()
    return tuple(
        Capability(id, STANDARD_NAMES.get(id, f"unknown ({id:02x})"), at, False,
                   _express(config, at) if id == EXPRESS_ID else _decode(config, at, STANDARD_FIELDS.get(id, ())))
        for at, id in _standard(config)[0]
    ) + tuple(
        Capability(id, EXTENDED_NAMES.get(id, f"unknown ({id:04x})"), at, True,
                   _decode(config, at, EXTENDED_FIELDS.get(id, ())))
        for at, id in _extended(config)[0]
    )


def find(config: bytes, id: int, *, extended: bool = False) -> Maybe[int]:
    """Where a capability stands: its offset; None = the list was read to its end without it."""
    if (why := unreadable(config)) is not None:
        return why
    found, missing = (_extended if extended else _standard)(config)
    return next((at for at, seen in found if seen == id), missing)


def port_type(config: bytes) -> Maybe[str]:
    """`endpoint`, `root port`, `downstream port` ... None = a conventional PCI function."""
    fields = _express_fields(config)
    return fields if fields is None or isinstance(fields, Unknown) else _known(fields, "type")


def link(config: bytes) -> Maybe[Link]:
    """This end of the link: speed and width now and at best. None = no link of its own (conventional, integrated).

    Speed and width are None while the link is down: the registers then hold no meaning (7.5.3.8).
    """
    fields = _link_fields(config)
    if fields is None or isinstance(fields, Unknown):
        return fields
    # The Supported Link Speeds Vector wins over Max Link Speed where there is one (7.5.3.18, as the kernel does).
    best = max(fields.get("supported_speeds", ()), default=None) or _known(fields, "max_speed_gts")
    width = _known(fields, "width")
    down = width == 0 or (fields.get("reports_active") is True and fields.get("link_active") is False)
    if down:
        return Link(speed_gts=None, width=None, max_speed_gts=best, max_width=_known(fields, "max_width"))
    return Link(_known(fields, "speed_gts"), width, best, _known(fields, "max_width"))


def link_flags(config: bytes) -> Maybe[LinkFlags]:
    """Link disable, training and Data Link Layer Link Active, of a function that has a link."""
    fields = _link_fields(config)
    if fields is None or isinstance(fields, Unknown):
        return fields
    if "link_active" not in fields:
        return CUT
    reports = fields["reports_active"]
    return LinkFlags(
        fields["link_disabled"], fields["link_training"], fields["link_active"] if reports else None, reports
    )


def slot_control(config: bytes) -> Maybe[SlotControl]:
    """The slot registers of a port; None = the port says that it leads to no slot.

    What the slot lacks the hardware for (a power controller, a latch sensor) reads None, not False.
    """
    fields = _express_fields(config)
    if fields is None or isinstance(fields, Unknown):
        return fields
    if not fields.get("slot_implemented"):
        return None
    if "presence" not in fields:
        return CUT
    power, latch = fields["power_controller"], fields["latch_sensor"]
    return SlotControl(
        number=fields["slot_number"], hotplug_capable=fields["hotplug_capable"], surprise=fields["surprise"],
        attention_button=fields["attention_button"], power_controller=power,
        attention_indicator=fields["attention_indicator"], power_indicator=fields["power_indicator"],
        latch_sensor=latch, power_limit_w=fields["power_limit_w"], power_off=fields["power_off"] if power else None,
        presence=fields["presence"], power_fault=fields["power_fault"] if power else None,
        latch_open=fields["latch_open"] if latch else None,
    )


def dpc(config: bytes) -> Maybe[Dpc]:
    """Downstream Port Containment; `reason` is None unless it has triggered."""
    fields = _fields_of(config, DPC)
    if fields is None or isinstance(fields, Unknown):
        return fields
    triggered = fields["triggered"]
    return Dpc(fields["enabled_for"] != "off", triggered, fields["reason"] if triggered else None)


def serial(config: bytes) -> Maybe[str]:
    """The Device Serial Number as lspci prints it (`00-11-22-ff-fe-33-44-55`); None = has none, or all zero."""
    fields = _fields_of(config, DSN)
    if fields is None or isinstance(fields, Unknown):
        return fields
    digits = fields["high"] + fields["low"]
    return "-".join(digits[at:at + 2] for at in range(0, 16, 2)) if digits.strip("0") else None


def without_serial(config: bytes) -> bytes:
    """The same bytes with the Device Serial Number zeroed, as far as it lies within them."""
    at = find(config, DSN, extended=True)
    if not isinstance(at, int):
        return config
    return config[:at + 4] + bytes(len(config[at + 4:at + 12])) + config[at + 12:]


def aer_status(config: bytes) -> Maybe[AerStatus]:
    """What stands in the AER status registers. The kernel clears what it reports, so this is what nobody took yet."""
    fields = _fields_of(config, AER)
    if fields is None or isinstance(fields, Unknown):
        return fields
    return AerStatus(
        fields["uncorrectable"], tuple(e for e in fields["uncorrectable"] if e in fields["fatal_if_seen"]),
        fields["correctable"], fields["uncorrectable_masked"] + fields["correctable_masked"],
    )


def sriov(config: bytes) -> Maybe[Sriov]:
    """The SR-IOV capability of a physical function."""
    fields = _fields_of(config, SRIOV)
    if fields is None or isinstance(fields, Unknown):
        return fields
    return Sriov(**{name: fields[name] for name in Sriov.__slots__})


def rebar(config: bytes) -> Maybe[tuple[Resizable, ...]]:
    """The resizable BARs (7.8.6)."""
    fields, at = _fields_of(config, REBAR), find(config, REBAR, extended=True)
    if fields is None or isinstance(fields, Unknown) or not isinstance(at, int):
        return fields if isinstance(fields, Unknown) else None
    # One pair of registers for each of at most six BARs; `bars` in the first one counts them.
    pairs = [_decode(config, at + 8 * n, REBAR_PAIR) for n in range(min(fields["bars"], 6))]
    if any(len(pair) < len(REBAR_PAIR) for pair in pairs):
        return CUT
    return tuple(Resizable(pair["index"], pair["size"], pair["sizes"]) for pair in pairs)


def _decode(config: bytes, at: int, table: Iterable[Field]) -> dict[str, Any]:
    """The fields of a table that lie wholly within the bytes."""
    return {
        field.name: field.meaning(
            (number(config, at + field.at, field.end - field.at) >> field.low) & ((2 << field.high - field.low) - 1))
        for field in table if at + field.end <= len(config)
    }


def _standard(config: bytes) -> tuple[list[tuple[int, int]], Unknown | None]:
    """(offset, id) of each standard capability, and why the list could not be followed to its end."""
    found: list[tuple[int, int]] = []
    at = config[LIST_POINTER.get(config[0x0E] & 0x7F, 0x34)] & ~3 if config[6] & 0x10 else 0
    while at >= HEADER and len(found) < MOST_STANDARD and at not in (seen for seen, _ in found):
        if at + 2 > len(config):
            return found, BEYOND_HEADER if len(config) in (HEADER, CARDBUS_HEADER) else CUT
        if config[at] == 0xFF:
            break
        found.append((at, config[at]))
        at = config[at + 1] & ~3
    return found, None


def _extended(config: bytes) -> tuple[list[tuple[int, int]], Unknown | None]:
    """The same for extended capabilities, which only PCI Express functions have."""
    standard, missing = _standard(config)
    if EXPRESS_ID not in (id for _, id in standard):
        return [], missing
    if len(config) <= EXTENDED:
        return [], BEYOND_256
    found: dict[int, int] = {}
    at = EXTENDED
    while at >= EXTENDED and at not in found:
        if at + 4 > len(config):
            return list(found.items()), CUT
        header = number(config, at, 4)
        if header in (0, 0xFFFFFFFF):      # an empty list is one capability of zeros (7.6.3); ones: no answer
            break
        found[at] = header & 0xFFFF
        at = header >> 20 & ~3
    return list(found.items()), None


def _express(config: bytes, at: int) -> dict[str, Any]:
    """The PCI Express capability, as much of it as this type and version of function implements."""
    fields = _decode(config, at, EXPRESS)
    if fields.get("type") not in LINKLESS:
        fields |= _decode(config, at, EXPRESS_LINK)
        if fields.get("version", 0) >= 2:
            fields |= _decode(config, at, EXPRESS_2)
    if fields.get("slot_implemented"):
        fields |= _decode(config, at, EXPRESS_SLOT)
    return fields


def _express_fields(config: bytes) -> Maybe[dict[str, Any]]:
    at = find(config, EXPRESS_ID)
    return _express(config, at) if isinstance(at, int) else at


def _link_fields(config: bytes) -> Maybe[dict[str, Any]]:
    fields = _express_fields(config)
    if fields is None or isinstance(fields, Unknown):
        return fields
    # Some emulated functions call themselves endpoints and leave the link registers zero.
    return None if fields.get("type") in LINKLESS or fields.get("max_width") == 0 else fields


def _fields_of(config: bytes, id: int) -> Maybe[dict[str, Any]]:
    """The fields of an extended capability: all of its table, or Unknown."""
    at = find(config, id, extended=True)
    if not isinstance(at, int):
        return at
    fields = _decode(config, at, EXTENDED_FIELDS[id])
    return fields if len(fields) == len(EXTENDED_FIELDS[id]) else CUT


def _known(fields: Mapping[str, Any], name: str) -> Any:
    """A field, or Unknown: cut off, or a code that the tables do not know."""
    value = fields.get(name, CUT)
    return Unknown(f"{name} reads {value}", Kind.IO) if isinstance(value, str) and "reserved" in value else value
