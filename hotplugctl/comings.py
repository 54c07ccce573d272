"""What only a close look tells of a card that comes, goes or was exchanged: facts for rules, named `runtime.…`.

Each costs something only where there is reason to ask.
"""

from __future__ import annotations

from typing import Any

from .host import Host
from .host.kmsg import STRAY
from .lifecycle import enumerated_at, enumerations
from .look import Look
from .model import Device, Driver, Maybe, Profile, State
from .readers import capabilities as config_space
from .readers import pci
from .readers.header import Identity
from .readers.waits import Waiting

RETRY = "0001"              # the vendor id that stands for "ask again" while a card starts (PCIe base spec 2.3.2)
ENHANCED_ALLOCATION = 0x14  # the capability that holds addresses in place of BARs (PCIe base spec 7.8.5)
MOST_NAMED = 4


def facts(
    seen: Look, function: pci.Function, profile: Profile, device: Device, raw: Maybe[bytes]
) -> tuple[dict[str, Any], dict[str, str]]:
    """All of them that hold, and where each was read."""
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for part in (_starting(seen, function, device), _leaving(seen, function, profile, device)):
        for name, value in part.items():
            if isinstance(value, Waiting):
                found[name], sources[f"runtime.{name}"] = value.where, f"{value.who}/stack"
            else:
                found[name] = value
    for name, value in (_exchanged(function, device, raw) if isinstance(raw, bytes) else {}).items():
        found[name], sources[f"runtime.{name}"] = value, f"{function.path}/config"
    return found | _left_behind(seen, function, profile), sources


def _starting(seen: Look, function: pci.Function, device: Device) -> dict[str, Any]:
    """Where the driver's probe waits and for how many seconds; nothing when it has returned.

    A driver is bound, for sysfs, from before its probe is called: only the thread's stack tells that it still runs.
    """
    if not isinstance(device.driver, Driver) or device.state in (State.READY, State.FAILED):
        return {}
    where, now = seen.probe_waits(function), seen.uptime
    lines = seen.kernel_log if isinstance(seen.kernel_log, tuple) else ()
    since = enumerated_at(lines, function.address)
    if not isinstance(where, Waiting) or not isinstance(now, float) or since is None:
        return {}
    return {"probe_waits_in": where, "probe_s": int(now - since)}


def _leaving(seen: Look, function: pci.Function, profile: Profile, device: Device) -> dict[str, Any]:
    """Where the driver's remove waits, and in which task.

    A driver is unbound, for sysfs, from before its remove is called (drivers/base/dd.c, __device_release_driver).
    """
    where = seen.remove_waits(function, profile) if device.driver is None else None
    if not isinstance(where, Waiting):
        return {}
    return {"remove_waits_in": where, "remove_waits_as": _task(seen.host, where.who)}


def _task(host: Host, path: str) -> str:
    name = host.text(f"{path}/comm")
    return f"pid {path.rsplit('/', 1)[1]}" + (f" ({name})" if isinstance(name, str) else "")


def _exchanged(function: pci.Function, device: Device, raw: bytes) -> dict[str, Any]:
    """Does another card answer than the one that the kernel set up?

    A card of other ids gives itself away. One of the same ids has none of the addresses that the kernel gave, which is
    what a reset does to a card too. A virtual function has neither ids nor BARs of its own.
    """
    answer, registers = config_space.identity(raw), config_space.bar_registers(raw)
    if function.virtual or not isinstance(answer, Identity) or answer.vendor_id == RETRY:
        return {}
    now, then = (f"{one.vendor_id}:{one.device_id}" for one in (answer, function))
    if now != then:
        return {"answers_as": f"{now}, set up as {then}"}
    given = [bar for bar in device.bars if bar.address and bar.kind != "io"] if isinstance(device.bars, tuple) else []
    kept = {one.index for one in registers if one.address} if isinstance(registers, tuple) else set()
    fixed = any(one.id == ENHANCED_ALLOCATION for one in config_space.capabilities(raw))
    lost = [bar.index for bar in given if bar.index not in kept]
    return {"addresses_lost": len(lost)} if lost and len(lost) == len(given) and not fixed else {}


def _left_behind(seen: Look, function: pci.Function, profile: Profile) -> dict[str, Any]:
    """Which processes work on a node of the card that was here before.

    A node that is gone does not say whose it was: only a place at which the kernel found a card more than once, the
    last time when the process was there already, can have been it.
    """
    lines = seen.kernel_log if isinstance(seen.kernel_log, tuple) else ()
    times = enumerations(lines, function.address)
    now, up = seen.moment
    if len(times) < 2 or not isinstance(up, float):
        return {}
    # The log's clock is not the one that dates processes: by that one the card may have come so much later.
    came = now - (up - times[-1]) + times[-1] * STRAY
    left = [file for file in seen.left_behind(profile) if file.since is None or file.since < came]
    said = [f"pid {file.pid} ({file.command}) has {file.path} open, a node that is gone" for file in left]
    if len(said) > MOST_NAMED:
        said = [*said[:MOST_NAMED], f"and {len(said) - MOST_NAMED} more"]
    return {"stale_handles": "; ".join(said)} if said else {}
