"""The ports, cards and empty slots of a case as one tree, with the way down to what is at fault marked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model import ADDRESS, Device, DeviceVerdict, Finding, Link, Machine, Port, Probed, Slot, Spot
from .tree import Tree

MOST_SPOTS = 300


def topology(
    machine: Machine, grown: Tree, verdicts: Sequence[DeviceVerdict], root: Finding | None,
) -> tuple[Spot, ...]:
    """Every device with a verdict, the ports above it, and the slots that are empty; parents before children.

    What the evidence does not tell of the tree is not in it: an address with no port above it stands at the top.
    """
    devices = {device.address: device for device in machine.devices if device.address is not None}
    ports = dict(_ports(machine))
    shown = [one.address for one in verdicts if one.address is not None and ADDRESS.fullmatch(one.address)]
    shown += [root.address] if root is not None and root.address is not None and ADDRESS.fullmatch(root.address) else []
    verdict = {one.address: one.verdict for one in verdicts}
    slots = {slot.port: slot for slot in machine.slots if isinstance(slot.port, str)}
    seated = [address for slot in slots.values() for address in slot.addresses]
    leaves = dict.fromkeys([*shown, *seated, *slots])
    chains = [(*reversed(_above(grown, leaf, devices.get(leaf))), leaf) for leaf in leaves]
    # The way down to the fault is whole, whatever there is no room for.
    fault = root.address if root is not None else None
    chains.sort(key=lambda chain: fault not in chain)
    path = next((frozenset(chain[:chain.index(fault) + 1]) for chain in chains if fault in chain), frozenset())
    spots: dict[str, Spot] = {}
    for chain in chains[:MOST_SPOTS]:
        for above, address in zip((None, *chain), chain, strict=False):
            if address not in spots:
                spots[address] = _spot(
                    address, above, devices.get(address), ports.get(address), slots.get(address), grown,
                    verdict=verdict.get(address), on_path=address in path)
    return tuple(sorted(spots.values(), key=lambda spot: (spot.under is not None, spot.address or "")))


def _ports(machine: Machine) -> Iterable[tuple[str, Port]]:
    for device in machine.devices:
        if isinstance(device, Probed) and isinstance(device.upstream, tuple):
            yield from ((port.address, port) for port in device.upstream)
    yield from ((port.address, port) for port in machine.ports)


def _above(grown: Tree, leaf: str, device: Device | None) -> tuple[str, ...]:
    """The ports above, nearest first; what the machine itself told before what bus numbers and time tell."""
    if isinstance(device, Probed) and isinstance(device.upstream, tuple) and device.upstream:
        return tuple(port.address for port in reversed(device.upstream))
    return grown.above(leaf)


def _spot(
    address: str, above: str | None, device: Device | None, port: Port | None, slot: Slot | None, grown: Tree, *,
    verdict: str | None, on_path: bool,
) -> Spot:
    link = device.link if device is not None else port.link if port is not None else None
    kind = port.kind if port is not None and isinstance(port.kind, str) else (
        "port" if port is not None or address in grown.bridges else "card")
    names = (device.model, device.vendor) if device is not None else ()
    name = " ".join(part for part in names if isinstance(part, str)) if device is not None else None
    return Spot(
        address=address, kind=kind, name=name or None, under=above,
        slot=slot.name if slot is not None else grown.port_slot.get(address),
        link=_link(link) if isinstance(link, Link) else None,
        state=_state(device) if device is not None else _filled(slot) if slot is not None else None,
        verdict=verdict, on_path=on_path,
    )


def _state(device: Device) -> str | None:
    return device.state.value if isinstance(device, Probed) and device.sure else None


def _filled(slot: Slot) -> str | None:
    """What a slot says of itself where the bus shows nothing in it."""
    if slot.addresses or not isinstance(slot.presence, bool):
        return None
    return "a card that the bus does not show" if slot.presence else "empty"


def _link(link: Link) -> str | None:
    """`x8 of x16, 16 GT/s`, as far as it is known."""
    if not isinstance(link.width, int) or not isinstance(link.speed_gts, (int, float)):
        return None
    width = f"x{link.width}"
    if isinstance(link.limit_width, int) and link.width < link.limit_width:
        width += f" of x{link.limit_width}"
    speed = f"{link.speed_gts:g}"
    if isinstance(link.limit_speed_gts, (int, float)) and link.speed_gts < link.limit_speed_gts:
        speed += f" of {link.limit_speed_gts:g}"
    return f"{width}, {speed} GT/s"
