"""What there is to judge: each device, port and slot of the evidence with the log lines about it.

A port speaks for the card below it (slot, AER and DPC lines), unless the line says that the port itself is in trouble.
A line that names nobody goes to the one device it can mean; when it could mean several it stays with the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..model import Device, Driver, Kind, LogLine, Machine, Port, Probed, Profile, Slot, Unknown, device_of
from ..rules.facts import Surroundings
from ..rules.hearing import Hit
from ..rules.judge import NO_LOG, Subject
from .told import told
from .tree import Tree

_SPEAKS_FOR_CARD = re.compile(
    r"(?:pciehp|shpchp) |pcieport \S+ (?:pciehp|AER|DPC|EDR|device recovery|PCIe Bus Error)\b"
)
_ABOUT_ITSELF = re.compile(r"no response from device|device inaccessible")
_ACCELERATOR_CLASSES = ("12", "0302", "0300", "0b40")
# What is plainly something else: by its class, else by the driver that speaks for it.
_OTHER: tuple[tuple[str, str, str], ...] = (
    ("storage", "01", r"nvme|ahci|ata_\w+|megaraid\w*|mpt\w*sas|hpsa|smartpqi|aacraid|qla\w+|lpfc|virtio_blk"),
    ("a network card", "02",
     r"r81\w+|e100\w*|igb\w*|igc|ixgbe\w*|i40e\w*|iavf|ice|mlx[45]\w*|bnx\w+|tg3|qed\w*|cxgb\w+|sfc\w*|atlantic|alx"
     r"|ena|gve|hns3|hclge|be2net|vmxnet3|virtio_net|fm10k|enic|nfp|sky2|atl1\w*"
     r"|iwl\w+|ath\d+k\w*|rtw\w*|rtl\w+|mt7\w+|brcmfmac|b43|wl"),
    ("a wireless card", "0d", ""),
    ("a memory controller", "05", ""),
    ("a sound device", "04", r"snd_\w+|sof-\S+"),
    ("a bus controller", "0c", r"xhci\w*|ehci\w*|ohci\w*|uhci\w*|thunderbolt|i801_smbus|intel-lpss"),
    ("a port for people", "07|09", r"serial|8250\w*|mei_\w+"),
)
# A line that such a driver begins: `nvme nvme2: `.
_OTHERS = re.compile(f"({'|'.join(drivers for _, _, drivers in _OTHER if drivers)}) [\\w.:-]*\\d: ")
_ALSO_OF_GPUS = ("a sound device", "a bus controller")      # as a further function of the card
# Kernel devices on other buses: `bluetooth hci0: `, `usb 1-2: `, `platform regulatory.0: `.
_ELSEWHERE = re.compile(
    r"(?:[Bb]luetooth:?|usb|btusb|hid(?:-[\w-]+)?|input|platform|mmc\w*|i2c\w*|spi|tpm\w*|sd|scsi|serio|ieee80211|mdio_bus"
    r"|ata\d*) ?[\w.:-]*\d[\w.:-]*: "
)
# Whatever it is, it was meant for a VM.
_TAKEN = re.compile(r"vfio[\w-]* ")
# What concerns all devices alike.
_OF_ALL = re.compile(
    r"PM: (?:suspend|hibernation):? (?:entry|exit)|thunderbolt \S+: device disconnected"
    r"|.*?(?:/sys/bus/pci/rescan\b|\bundock(?:ed|ing)?\b|[Ss]afe(?:ly)? (?:remov|to (?:unplug|remove)))"
)


@dataclass
class Place:
    """One subject while it is gathered: an endpoint, a port, a slot, or (address None) the machine as a whole."""

    address: str | None
    slot_name: str | None = None
    device: Device | None = None
    port: Port | None = None
    slot: Slot | None = None
    profile: Profile | None = None
    bridge: bool = False
    named: bool = False
    foreign: bool = False
    probed: bool = False
    bound: bool = False         # a driver was seen bound, not only heard of
    spoke: int = -1             # the last line that the place's own address stands in
    guessed: frozenset[str] = frozenset()   # ports that nothing but time ties to it
    whole: bool = False         # stands for the machine: what concerns no single card is judged here
    heard: dict[str, list[Hit]] = field(default_factory=dict)
    unowned: Mapping[str, Sequence[Hit]] = field(default_factory=dict)      # heard, and about nobody

    @property
    def accelerator(self) -> bool:
        """A card hotplugctl is for, as far as its ids, class or driver tell."""
        if self.profile is not None:
            return True
        kind = self.device.class_ if self.device is not None else None
        return isinstance(kind, str) and kind.startswith(_ACCELERATOR_CLASSES)

    @property
    def prominent(self) -> bool:
        """What goes wrong with it counts before other devices: an accelerator, a slot's card, or one meant for a VM."""
        return self.accelerator or self.slot_name is not None or _driven_by(self, "vfio-pci")

    @property
    def drive(self) -> bool:
        """Is it plainly storage?"""
        return self.device is not None and _kind_of(self.device) == "storage"

    @property
    def stranger(self) -> str | None:
        """Why it is plainly no accelerator; None where it may be one, was named, or a port or a VM's driver has it."""
        device = self.device
        if self.bridge or self.named or self.accelerator or device is None or device.address is None:
            return None
        lines = [hit.line for hits in self.heard.values() for hit in hits]
        if any(line.slot is not None or line.text.startswith("pcieport ") or _TAKEN.match(line.text) for line in lines):
            return None
        kind = _kind_of(device)
        onboard, first = device.address.split(":")[1] == "00", device.address.endswith(".0")
        if kind is None or (kind in _ALSO_OF_GPUS and not onboard and not first):
            return None
        return f"it is no accelerator but {kind}, and no slot speaks of it"


def _kind_of(device: Device) -> str | None:
    """What a device plainly is, if that is no accelerator."""
    name = device.driver.name if isinstance(device.driver, Driver) else None
    for kind, classes, drivers in _OTHER:
        if isinstance(device.class_, str):
            if re.match(classes, device.class_):
                return kind
        elif isinstance(name, str) and re.fullmatch(drivers, name):
            return kind
    return None


def gather(
    machine: Machine, lines: Sequence[LogLine], heard: Mapping[str, Sequence[Hit]], tree: Tree,
    profiles: Sequence[Profile], *, named: Sequence[str], live: bool,
) -> list[Place]:
    """Every place with the lines about it; the machine's own last, where the only card does not stand for it."""
    owners = _owners(lines, tree)
    places = _known(machine, tree)
    mentioned = dict.fromkeys(address for own in owners for address in own)
    for address in (*mentioned, *(n for n in named if ":" in n and not n.startswith("slot:"))):
        if address not in places:
            places[address] = Place(address, foreign=live, bridge=address in tree.bridges)
    about: dict[str, list[LogLine]] = {}
    for order, (line, own) in enumerate(zip(lines, owners, strict=True)):
        for address in own:
            about.setdefault(address, []).append(line)
        if line.address in places:
            places[line.address].spoke = order
    for place in places.values():
        _complete(place, machine, tree, profiles, about.get(place.address or "", ()), live=live)
        place.named = place.address in named or (place.slot_name is not None and f"slot:{place.slot_name}" in named)
    everyone = Place(None)
    unowned: dict[str, list[Hit]] = {}
    adopt = _adopter(places, {address for hits in heard.values() for hit in hits for address in owners[hit.order]})
    for pattern, hits in heard.items():
        for hit in hits:
            if not owners[hit.order] and _ELSEWHERE.match(hit.line.text):
                continue
            if not owners[hit.order]:
                unowned.setdefault(pattern, []).append(hit)
            own = owners[hit.order] or adopt(hit.line)
            to_all = _OF_ALL.match(hit.line.text) is not None
            for target in [*places.values(), everyone] if to_all else [places[at] for at in own] or [everyone]:
                target.heard.setdefault(pattern, []).append(hit)
    only = adopt(LogLine("", 0, ""))
    stands_for_all = places[only[0]] if only else everyone
    stands_for_all.whole = True
    found = list(places.values())
    for place in found:
        place.unowned = unowned
    return [*found, everyone] if everyone.heard or everyone.whole else found


def subject_of(place: Place, surroundings: Surroundings, logs: Unknown | None) -> Subject:
    """The place as the judge sees it."""
    return Subject(
        address=place.address, slot_name=place.slot_name, device=place.device, port=place.port, slot=place.slot,
        profile=place.profile, surroundings=surroundings, named=place.named, bridge=place.bridge,
        enumerated=place.device is not None and place.device.address is not None, heard=place.heard, logs=logs,
        unowned=place.unowned, guessed=place.guessed,
    )


def log_gap(machine: Machine) -> Unknown | None:
    """Why silence of the log proves nothing, or None when there is a log."""
    if machine.logs:
        return None
    return next((Unknown(gap.reason, Kind.NOT_CAPTURED) for gap in machine.gaps if "log" in gap.path), NO_LOG)


def _known(machine: Machine, tree: Tree) -> dict[str, Place]:
    """Places that the machine itself shows: its devices, and its ports and slots without one."""
    places: dict[str, Place] = {}
    for device in machine.devices:
        slot = next((s for s in machine.slots if s.name == device.slot), None)
        above = tree.slot_port.get(device.slot) if isinstance(device.slot, str) else None
        address = device.address or above or (f"slot:{device.slot}" if isinstance(device.slot, str) else None)
        if address is not None:
            places[address] = Place(
                address, device=device, slot=slot, bridge=device.address is None, probed=True,
                bound=isinstance(device.driver, Driver),
            )
    for port in machine.ports:
        places.setdefault(port.address, Place(port.address, port=port, bridge=True))
        tree.bridges.add(port.address)
    for slot in machine.slots:
        if not slot.addresses:
            at = slot.port if isinstance(slot.port, str) else f"slot:{slot.name}"
            places.setdefault(at, Place(at, bridge=True)).slot = slot
    return places


def _complete(
    place: Place, machine: Machine, tree: Tree, profiles: Sequence[Profile], about: Sequence[LogLine], *, live: bool
) -> None:
    """Port, slot and profile of a place, and in an archive what the log tells of its device."""
    address = place.address or ""
    ports = {port.address: port for port in machine.ports}
    if isinstance(place.device, Probed) and isinstance(place.device.upstream, tuple):
        ports.update({port.address: port for port in place.device.upstream})
    above = (address, *tree.above(address)) if place.bridge else tree.above(address)
    place.guessed = frozenset(tree.guessed.get(address, ()))
    place.port = place.port or next((ports[a] for a in above if a in ports), None)
    slot_name = next((tree.port_slot[a] for a in above if a in tree.port_slot), None)
    if place.device is not None and isinstance(place.device.slot, str):
        slot_name = place.device.slot
    place.slot_name = slot_name or (place.slot.name if place.slot is not None else None)
    place.slot = place.slot or next((slot for slot in machine.slots if slot.name == place.slot_name), None)
    if not live and not place.bridge and ":" in address and not address.startswith("slot:"):
        place.device = told(place.device, address, about, profiles)
    if place.device is not None and not place.bridge:
        place.profile = profile_of(place.device, profiles)
    if place.foreign and (place.accelerator or place.slot_name is not None):
        place.foreign = False


def profile_of(device: Device, profiles: Sequence[Profile]) -> Profile | None:
    """The profile a device names, or that its ids or its driver fit; the generic one last."""
    if isinstance(device.profile, str):
        return next((profile for profile in profiles if profile.id == device.profile), None)
    ids = (device.vendor_id, device.device_id, device.class_)
    plain = [part if isinstance(part, str) else "" for part in ids]
    if plain[0]:
        return next((profile for profile in profiles if profile.match.covers(*plain)), None)
    name = device.driver.name if isinstance(device.driver, Driver) else None
    return next((profile for profile in profiles if isinstance(name, str) and name in profile.drivers), None)


def _owners(lines: Sequence[LogLine], tree: Tree) -> list[tuple[str, ...]]:
    """For each line the addresses it is about."""
    endpoints = {line.address for line in lines if line.address is not None and line.address not in tree.bridges}
    endpoints |= {also for line in lines for also in line.also if also not in tree.bridges}
    below: dict[str, list[str]] = {}
    for card in sorted(endpoints):
        slot_port = next((port for port in tree.above(card) if port in tree.port_slot), tree.parent(card))
        speaking = [port for port in (slot_port, *tree.tied.get(card, [])) if port is not None]
        for port in dict.fromkeys(speaking):
            if not any(device_of(a) == device_of(card) for a in below.get(port, [])):
                below.setdefault(port, []).append(card)
    owners: list[tuple[str, ...]] = []
    last_named: dict[str, tuple[str, ...]] = {}
    for line in lines:
        address: str | None = line.address or (tree.slot_port.get(line.slot) if line.slot is not None else None)
        if address is None:
            owners.append(())
        elif address not in tree.bridges:
            owners.append((address, *(a for a in line.also if a in endpoints and a != address)))
        elif _ABOUT_ITSELF.search(line.text) or not (line.also or _speaks_for_card(line)):
            owners.append((address,))
        else:
            cards = tuple(a for a in line.also if a in endpoints)
            if cards:
                last_named[address] = cards
            elif ": Slot(" not in line.text:
                cards = last_named.get(address, ())
            owners.append(cards or tuple(below.get(address, ())) or (address,))
    return owners


def _speaks_for_card(line: LogLine) -> bool:
    """Does a line of a port mean the card below it? So does one that is the port's by its hot-plug thread alone."""
    of_thread = line.slot is None and line.address is not None and line.address[5:] not in line.text
    return of_thread or _SPEAKS_FOR_CARD.match(line.text) is not None


def _adopter(places: Mapping[str, Place], active: set[str]) -> Callable[[LogLine], tuple[str, ...]]:
    """A function that gives the one device that a line without an address can mean.

    That is the only accelerator, or the only one of the vendor the line names; where no accelerator is in the evidence,
    the only card, or the only port.
    """
    cards = [
        place for place in places.values()
        if not place.bridge and not place.foreign and (place.device is None or _kind_of(place.device) is None)
    ]
    cards_and_others = [place for place in places.values() if not place.bridge]
    accelerators = [place for place in cards if place.accelerator]
    words = [(place, _words(place.profile)) for place in accelerators]
    others: tuple[list[Place], ...] = (
        [p for p in cards if p.address in active], cards,
        [p for p in places.values() if not p.foreign and (p.bridge or p in cards)],
    )
    fallback = next((one for choice in others if (one := _one_card(choice))), ())

    def adopt(line: LogLine) -> tuple[str, ...]:
        speaker = _OTHERS.match(line.text)
        if speaker is not None:         # of a disk, a network card, ...
            return _one_card([place for place in cards_and_others if _driven_by(place, speaker[1])])
        text = line.text.casefold()
        meant = [place for place, own in words if any(word in text for word in own)]
        return _one_card(meant or accelerators) if accelerators else fallback

    return adopt


def _driven_by(place: Place, name: str) -> bool:
    driver = place.device.driver if place.device is not None else None
    return isinstance(driver, Driver) and driver.name == name


def _one_card(places: Sequence[Place]) -> tuple[str, ...]:
    """The lowest function, when all are functions of one card."""
    addresses = sorted(place.address for place in places if place.address is not None)
    return (addresses[0],) if len({device_of(address) for address in addresses}) == 1 else ()


def _words(profile: Profile | None) -> tuple[str, ...]:
    """Words by which a line means a vendor's cards: driver names and the stems of nodes."""
    if profile is None:
        return ()
    nodes = [node.rsplit("/", 1)[-1].split("{")[0] for node in profile.nodes]
    return tuple(word.casefold() for word in (profile.id, *profile.drivers, *nodes) if len(word) > 2)
