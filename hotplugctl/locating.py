"""The slot's attention indicator as a locate light."""

from __future__ import annotations

from collections.abc import Sequence

from . import act, records
from .errors import Exit, HotplugError
from .host import Host
from .host.live import Live
from .model import Device
from .readers.slots import SLOTS

# Documentation/PCI: 0 off, 1 on (attention needed), 2 blink (locate), as PCIe base spec 6.7.1.1.1 has it.
LIGHTS = {"on": "2", "off": "0"}


def locate(host: Host, found: Sequence[Device], wanted: str) -> None:
    """Blink the attention indicator of the device's slot, or switch it off.

    Raises HotplugError: USAGE away from the live machine or for another word; UNKNOWN without a slot or indicator.
    """
    if wanted not in LIGHTS:
        raise HotplugError(f"--locate {wanted!r}", why="it is on or off", hint="--locate on", exit=Exit.USAGE)
    if not isinstance(host, Live):
        raise HotplugError(
            "--locate cannot be used with --root", why="a captured machine has no lights", hint="leave --root out",
            exit=Exit.USAGE,
        )
    slot = next((device.slot for device in found if isinstance(device.slot, str)), None)
    if slot is None:
        raise HotplugError(
            "cannot locate it", why="it is in no slot that the kernel knows", hint="hotplugctl list --slots",
            exit=Exit.UNKNOWN,
        )
    path = f"{SLOTS}/{slot}/attention"
    if host.text(path) is None:
        raise HotplugError(
            f"cannot locate slot:{slot}", why="it has no attention indicator", hint="hotplugctl list --slots",
            exit=Exit.UNKNOWN,
        )
    with records.lock(f"slot:{slot}", "locating it"):
        act.write(host, f"slot:{slot}", path, LIGHTS[wanted], took=lambda: host.text(path) == LIGHTS[wanted])
