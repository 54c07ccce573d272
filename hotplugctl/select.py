"""Which devices a person means: addresses, slots, nodes, serials, UUIDs, `all`, and filters. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import Exit, HotplugError
from .model import ADDRESS, Device, Machine, Slot, State, parse_address

_FILES = (".txt", ".log", ".gz", ".xz", ".bz2", ".tar", ".tgz", ".json", ".jsonl")     # what names of files end in


@dataclass(frozen=True, slots=True)
class Filters:
    """Or within a filter, and across filters; an empty one lets everything through."""

    vendor: Sequence[str] = ()
    state: Sequence[str] = ()
    slot: Sequence[str] = ()
    numa: Sequence[int] = ()
    label: Sequence[str] = ()

    def admits(self, device: Device) -> bool:
        """Does the device pass every filter?"""
        labels = [f"{key}={value}" for key, value in device.labels.items()]
        return all((
            not self.vendor or device.profile in self.vendor,
            not self.state or device.state.value in self.state,
            not self.slot or device.slot in self.slot,
            not self.numa or device.numa_node in self.numa,
            not self.label or any(wanted in labels for wanted in self.label),
        ))


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was meant: devices, and slots by name that are there but have no device to show."""

    devices: tuple[Device, ...]
    slots: tuple[str, ...] = ()
    addresses: tuple[str, ...] = field(default=())


def check_filters(filters: Filters, profiles: Mapping[str, str]) -> None:
    """Raises HotplugError(USAGE) for a state, vendor or label that cannot exist. `profiles`: id -> name."""
    states = [state.value for state in State]
    for wanted in filters.state:
        if wanted not in states:
            raise _no_such("state", wanted, states)
    for wanted in filters.vendor:
        if wanted not in profiles:
            raise _no_such("vendor", wanted, list(profiles))
    for wanted in filters.label:
        if "=" not in wanted:
            raise HotplugError(
                f"--label {wanted} is not a label", why="a label is KEY=VALUE", hint="--label pool=training",
                exit=Exit.USAGE,
            )


def choose(machine: Machine, named: Sequence[str], filters: Filters, *, absent_ok: bool = False) -> Chosen:
    """The devices a person named, in the machine's order.

    A well-formed address or an existing slot without a device is kept in `addresses` or `slots` when `absent_ok`.
    Raises HotplugError: UNKNOWN for what is not there, with near matches; USAGE for what cannot be a device.
    """
    admitted = [device for device in machine.devices if filters.admits(device)]
    if not named or "all" in named:
        return Chosen(tuple(admitted))
    picked: list[Device] = []
    empty: list[str] = []
    absent: list[str] = []
    for word in named:
        found = [device for device in machine.devices if named_by(word)(device)]
        if found:
            picked += [device for device in found if filters.admits(device) and device not in picked]
        elif word.startswith("slot:") and (slot := _slot(machine, word[5:])) is not None:
            empty.append(slot.name)
        elif word.startswith("slot:") and absent_ok and not machine.slots:
            empty.append(word[5:])  # files know no slots but those their lines speak of
        elif absent_ok and ADDRESS.fullmatch(word.lower()):
            absent.append(parse_address(word))
        else:
            raise _absent(word, machine)
    order = {id(device): n for n, device in enumerate(machine.devices)}
    return Chosen(tuple(sorted(picked, key=lambda d: order[id(d)])), tuple(empty), tuple(absent))


def _slot(machine: Machine, name: str) -> Slot | None:
    """A slot by the kernel's name or by the printed one."""
    return next((slot for slot in machine.slots if name in (slot.name, slot.printed)), None)


def slots(machine: Machine, chosen: Chosen, filters: Filters, *, named: bool) -> list[Slot]:
    """The slots meant: those named, those whose card passes the filters; an empty one by its name alone."""
    if not named and filters == Filters():
        return list(machine.slots)
    filled = {device.slot for device in chosen.devices}
    by_name = filters == Filters(slot=filters.slot)  # no filter asks for anything that only a card has
    empty = {*chosen.slots, *(filters.slot if not named else ())} if by_name else set()
    return [slot for slot in machine.slots if slot.name in filled or (slot.name in empty and not slot.addresses)]


def named_by(word: str) -> Callable[[Device], bool]:
    """A test whether a device is meant by one DEVICE word."""
    if ADDRESS.fullmatch(word.lower()):
        address = parse_address(word)
        return lambda device: device.address == address
    if word.startswith("slot:"):
        return lambda device: word[5:] in (device.slot, device.slot_printed)
    if word.startswith("/dev/"):
        return lambda device: isinstance(device.nodes, tuple) and any(node.path == word for node in device.nodes)
    return lambda device: word in (device.serial, device.uuid)


def _absent(word: str, machine: Machine) -> HotplugError:
    known = [device.address for device in machine.devices if device.address]
    known += [f"slot:{slot.name}" for slot in machine.slots]
    for device in machine.devices:
        known += [node.path for node in device.nodes] if isinstance(device.nodes, tuple) else []
        known += [value for value in (device.serial, device.uuid) if isinstance(value, str)]
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    why = f"did you mean {' or '.join(near)}?" if near else "no accelerator, slot, node or serial of that name is here"
    hint = "hotplugctl list"
    if not near and not word.startswith("/dev/") and ("/" in word or word.endswith(_FILES)):
        why, hint = "a file of evidence is given with --from", "hotplugctl diagnose --from FILE"
    return HotplugError(f"no device {word}", why=why, hint=hint, exit=Exit.UNKNOWN)


def _no_such(what: str, wanted: str, known: Sequence[str]) -> HotplugError:
    near = difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.5) or list(known)
    return HotplugError(
        f"no {what} {wanted!r}", why=f"it is one of {', '.join(known)}", hint=f"hotplugctl list --{what} {near[0]}",
        exit=Exit.USAGE,
    )
