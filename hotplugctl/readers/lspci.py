"""`lspci` text of any verbosity -> devices and ports, with what the text tells; everything else is not captured.

What a listing leaves out depends on its options and on who ran it, so a missing line is Unknown, never "not there".
The exception is the driver: a listing that shows drivers at all (`-k`, `-v`) shows them for every function that has
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Bar, Driver, Kind, Link, Maybe, Port, Probed, SlotControl, State, Unknown
from .located import normal
from .lspci_forms import usual_form

HEAD = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) "
    r"(?P<class>[A-Z0-9\"][^:\[\n]{2,60}?)(?: \[(?P<class_id>[0-9a-f]{4})\])?: (?P<name>.*)"
)
HEADING = r"[0-9a-f]{2}:[01][0-9a-f]\.[0-7] [A-Z0-9\"]"       # what HEAD needs at least
_IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]")
_UNNAMED = re.compile(r"\bDevice (?P<device>[0-9a-f]{4})\b")
_TAIL = re.compile(r"(?: \(rev [0-9a-f]{2}\)| \(prog-if [^)\n]{1,80}\)| \[[0-9a-f]{4}:[0-9a-f]{4}\]){1,4}$")
_DEAD = re.compile(r"\(rev ff\)|!!! Unknown header type 7f|Unknown header type ff")
_REGION = re.compile(
    r"(?:Region (?P<index>\d): |^\t)(?P<kind>Memory|I/O ports) at (?P<address><[a-z]+>|[0-9a-f]{1,16}(?![0-9a-f]))"
    r"(?: \((?P<width>32|64)-bit, (?P<pref>non-)?prefetchable\))?(?P<rest>.*)"
)
_SIZE = re.compile(r"\[size=(?P<number>\d{1,9})(?P<unit>[KMGT]?)\]")
_LINK_CAP = re.compile(r"LnkCap:.*Speed (?P<speed>\d{1,3}(?:\.\d{1,3})?)GT/s, Width x(?P<width>\d{1,3})\b")
_LINK_STA = re.compile(
    r"LnkSta:\s*Speed (?P<speed>\d{1,3}(?:\.\d{1,3})?|unknown)(?:GT/s)?[^,]*, Width x(?P<width>\d{1,3})\b"
)
_FLAG = re.compile(r"\b(?P<name>[A-Za-z]+)(?P<sign>[+-])")
_BUSES = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_EXPRESS = re.compile(r"Express \(v\d\) (?P<kind>[^(,]+?)(?: \(Slot(?P<slot>[+-])\))?,")
_SLOT_NUMBER = re.compile(r"Slot #(?P<number>\d{1,6}), PowerLimit (?P<limit>\d{1,6}(?:\.\d{1,3})?)W")
_SERIAL = re.compile(r"Device Serial Number (?P<serial>[0-9a-f]{2}(?:-[0-9a-f]{2}){7})")
_NUMA = re.compile(r"NUMA node: (?P<node>\d{1,6})\b")
_IN_USE = "Kernel driver in use:"
_MODULE = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)
_GROUP = re.compile(r"IOMMU group: (?P<group>\d{1,9})\b")
_PHYSICAL = re.compile(r"Physical Slot: (?P<slot>\S+)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Classes as lspci words them, for listings without -n (pci.ids, "List of known device classes").
_CLASSES = {
    "Processing accelerators": "120000", "3D controller": "030200", "VGA compatible controller": "030000",
    "Display controller": "038000", "Co-processor": "0b4000", "PCI bridge": "060400",
    "Non-Volatile memory controller": "010802", "Ethernet controller": "020000", "System peripheral": "088000",
    "Signal processing controller": "118000", "Audio device": "040300",
}
_VENDORS = (
    ("Huawei", "19e5"), ("NVIDIA", "10de"), ("Advanced Micro Devices", "1022"), ("[AMD/ATI]", "1002"),
    ("Habana", "1da3"), ("Intel", "8086"), ("Qualcomm", "17cb"), ("Hailo", "1e60"), ("Global Unichip", "1ac1"),
    ("Tenstorrent", "1e52"),
)
MISSING = Unknown("the lspci text does not show it", Kind.NOT_CAPTURED)


@dataclass(frozen=True, slots=True)
class Listing:
    """What an lspci text shows: functions that are no bridges, and bridges."""

    devices: tuple[Probed, ...]
    ports: tuple[Port, ...]


def looks_like_lspci(text: str) -> bool:
    """Does the text have at least one line with which lspci begins a function?"""
    return any(HEAD.match(line) for line in usual_form(text).splitlines()[:2000])


def read_lspci(text: str, source: str) -> Listing:
    """Every function of the text. Lines of other tools between them are passed over."""
    text = usual_form(text)
    every = list(_blocks(text))
    blocks = _longest(every)
    # In a listing whose lines are not where they belong, a function without the line may have a driver all the same;
    # so may the last one where `lspci -v` does not end with the empty line that it puts behind each function.
    said = [sum(_IN_USE in line for line in block) for block in every]
    in_place = max(said, default=0) <= 1 and sum(said) == text.count(_IN_USE)
    drivers_shown = in_place and any(said) and sum(_IN_USE in line for block in blocks for line in block) == sum(said)
    devices, ports = [], []
    for block in blocks:
        head = HEAD.match(block[0])
        if head is None:
            continue
        if head["class"].endswith("bridge") and "Host bridge" not in head["class"]:
            ports.append(_port(head, block, in_place=in_place))
        else:
            cut = block is blocks[-1] and not text.endswith("\n\n") and any("\tLnk" in line for line in block)
            devices.append(_device(head, block, source, in_place=in_place, drivers_shown=drivers_shown and not cut))
    by_bus = {port.secondary_bus: port for port in ports if isinstance(port.secondary_bus, int)}
    return Listing(tuple(_with_port(device, by_bus) for device in devices), tuple(ports))


def _longest(blocks: Iterable[list[str]]) -> list[list[str]]:
    """The blocks, of several for one function the one that tells most, or the last of those."""
    found: dict[str, list[str]] = {}
    for block in blocks:
        head = HEAD.match(block[0])
        name = _address(head) if head is not None else block[0]
        if len(block) >= len(found.get(name, ())):
            found[name] = block
    return list(found.values())


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each function: a head, and what is indented below it."""
    block: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if HEAD.match(line):
            if block:
                yield block
            block = [line]
        elif block and line[:1] in (" ", "\t"):
            block.append(line)
        elif block and line.strip():
            yield block
            block = []
    if block:
        yield block


def _address(head: re.Match[str]) -> str:
    raw = head["address"]
    return normal(raw if raw.count(":") == 2 else f"0000:{raw}")


def _device(head: re.Match[str], block: Sequence[str], source: str, *, in_place: bool, drivers_shown: bool) -> Probed:
    body = "\n".join(block)
    ids, unnamed = _IDS.search(block[0]), _UNNAMED.search(block[0])
    vendor = next((number for word, number in reversed(_VENDORS) if word in head["name"]), None)
    class_ = f"{head['class_id']}00" if head["class_id"] else _CLASSES.get(head["class"])
    dead = _DEAD.search(body) is not None
    serial, numa, group, slot = (p.search(body) for p in (_SERIAL, _NUMA, _GROUP, _PHYSICAL))
    verbose = len(block) > 1
    return Probed(
        profile=MISSING, address=_address(head), slot=slot["slot"] if slot else MISSING, slot_printed=MISSING,
        vendor=MISSING, vendor_id=ids["vendor"] if ids else vendor or MISSING,
        device_id=ids["device"] if ids else unnamed["device"] if unnamed else MISSING,
        model=_TAIL.sub("", head["name"]), class_=class_ or MISSING, uuid=MISSING,
        serial=serial["serial"] if serial else MISSING,
        driver=_driver(block, in_place=in_place, drivers_shown=drivers_shown),
        link=_link(body) if not dead else MISSING,
        bars=_bars(block) if verbose and not dead else MISSING, numa_node=int(numa["node"]) if numa else MISSING,
        iommu_group=int(group["group"]) if group else MISSING, nodes=MISSING,
        state=State.FAILED if dead else State.IDENTIFIED, rung=State.IDENTIFIED, sure=False,
        error="it answers all ones" if dead else None,
        upstream=MISSING, capabilities=MISSING, iommu_peers=MISSING, holders=MISSING, runtime=MISSING, room=MISSING,
        sources=dict.fromkeys(("driver", "link", "bars", "state", "class", "vendor_id"), source),
    )


def _driver(block: Sequence[str], *, in_place: bool, drivers_shown: bool) -> Maybe[Driver]:
    pairs = [line.strip().partition(":") for line in block[1:] if line.strip().startswith("Kernel ")]
    fields = {name: value.strip() for name, colon, value in pairs if colon}
    name = fields.get("Kernel driver in use", "")
    if _MODULE.fullmatch(name):
        return Driver(name=name, module=MISSING, version=MISSING, firmware=MISSING)
    if any("Kernel driver in use" in line for line in block):
        return MISSING          # the line was cut, written over or run into another: a driver was shown, not which
    # `Kernel modules` alone: the listing shows drivers, and this function has none.
    return None if drivers_shown or (in_place and "Kernel modules" in fields) else MISSING


def _link(body: str) -> Maybe[Link]:
    cap, sta = _LINK_CAP.search(body), _LINK_STA.search(body)
    if cap is None and sta is None:
        return MISSING
    return Link(
        speed_gts=float(sta["speed"]) if sta and sta["speed"] != "unknown" else MISSING,
        width=int(sta["width"]) if sta else MISSING,
        max_speed_gts=float(cap["speed"]) if cap else MISSING, max_width=int(cap["width"]) if cap else MISSING,
        limit_speed_gts=MISSING, limit_width=MISSING, limited_by=MISSING,
    )


def _bars(block: Sequence[str]) -> Maybe[tuple[Bar, ...]]:
    found = []
    following = 0       # -v gives no numbers: the BARs stand in order, and one of 64 bits takes two places
    for line in block[1:]:
        match = _REGION.search(line)
        if match is None:
            continue
        index = int(match["index"] or following)
        following = index + (2 if match["width"] == "64" else 1)
        size = _SIZE.search(match["rest"])
        raw = match["address"]
        # `<ignored>`: the kernel's address and the register differ; the register still holds one.
        assigned: Maybe[bool] = raw != "<unassigned>"
        kind = "io" if match["kind"] == "I/O ports" else f"mem{match['width'] or '32'}"
        if kind == "mem64" and not match["pref"]:
            kind = "mem64pref"
        found.append(
            Bar(
                index, int(size["number"]) * _UNITS[size["unit"]] if size else MISSING,
                int(raw, 16) if not raw.startswith("<") else None, kind, assigned,
            )
        )
    return tuple(found) or MISSING


def _flags(body: str, label: str) -> dict[str, bool]:
    """`AttnBtn+ PwrCtrl-` behind a label as booleans by name."""
    match = re.search(rf"{label}(?P<flags>[^\n]*)", body)
    return {flag["name"]: flag["sign"] == "+" for flag in _FLAG.finditer(match["flags"])} if match else {}


def _port(head: re.Match[str], block: Sequence[str], *, in_place: bool) -> Port:
    body = "\n".join(block)
    buses, express = _BUSES.search(body), _EXPRESS.search(body)
    dead = _DEAD.search(body) is not None
    status = re.search(r"LnkSta:[^\n]*\n(?P<flags>[^\n]*)", body)
    link_flags = {f["name"]: f["sign"] == "+" for f in _FLAG.finditer(status["flags"])} if status else {}
    driver = _driver(block, in_place=in_place, drivers_shown=False)
    return Port(
        address=_address(head), kind=express["kind"].lower() if express else MISSING,
        driver=driver.name if isinstance(driver, Driver) else driver,
        secondary_bus=int(buses[2], 16) if buses else MISSING, subordinate_bus=int(buses[3], 16) if buses else MISSING,
        link=_link(body) if not dead else MISSING,
        link_disabled=_flags(body, "LnkCtl:").get("Disabled", MISSING),
        link_training=link_flags.get("Train", MISSING), link_active=link_flags.get("DLActive", MISSING),
        windows=MISSING, slot=_slot(body), aer=MISSING, dpc=MISSING, power=MISSING, answering=not dead,
    )


def _slot(body: str) -> Maybe[SlotControl]:
    cap, sta = _flags(body, "SltCap:"), _flags(body, r"SltSta:\s*Status:")
    if not cap and not sta:
        return MISSING
    control = _flags(body, r"\n\s+(?:SltCtl:\s*)?Control: AttnInd [^\n]*?(?=Power[+-])")
    number = _SLOT_NUMBER.search(body)

    def bit(flags: Mapping[str, bool], name: str) -> Maybe[bool]:
        return flags.get(name, MISSING)

    # lspci prints the Power Controller Control bit itself: `Power+` is power off (PCIe base spec 7.5.3.10).
    controller = bit(cap, "PwrCtrl")
    return SlotControl(
        number=int(number["number"]) if number else MISSING, hotplug_capable=bit(cap, "HotPlug"),
        surprise=bit(cap, "Surprise"), attention_button=bit(cap, "AttnBtn"), power_controller=controller,
        attention_indicator=bit(cap, "AttnInd"), power_indicator=bit(cap, "PwrInd"), latch_sensor=bit(cap, "MRL"),
        power_limit_w=float(number["limit"]) if number else MISSING,
        power_off=None if controller is False else bit(control, "Power"), presence=bit(sta, "PresDet"),
        power_fault=bit(sta, "PowerFlt"), latch_open=None if cap.get("MRL") is False else bit(sta, "MRL"),
    )


def _with_port(device: Probed, by_bus: Mapping[int, Port]) -> Probed:
    """The device with the limits of its link, where the text shows the port above it too."""
    bus = int((device.address or "0:0:0.0").split(":")[1], 16)
    port, link = by_bus.get(bus), device.link
    if port is None or not isinstance(port.link, Link) or not isinstance(link, Link):
        return device
    widths, speeds = (link.max_width, port.link.max_width), (link.max_speed_gts, port.link.max_speed_gts)
    width = min(w for w in widths if isinstance(w, int)) if all(isinstance(w, int) for w in widths) else MISSING
    speed = min(s for s in speeds if isinstance(s, float)) if all(isinstance(s, float) for s in speeds) else MISSING
    return replace(device, link=replace(link, limit_width=width, limit_speed_gts=speed), upstream=(port,))
