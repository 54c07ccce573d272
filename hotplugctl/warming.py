"""The warm-up of a card that has become ready: contexts made ahead of the first job, once a boot and binding."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from . import config, records
from .errors import HotplugError
from .host import Host
from .model import Device
from .readers import kernel

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Warmed:
    """What came of it. `ran` False: none is configured, or it has run already in this boot and binding."""

    ran: bool
    passed: bool = True
    said: str = ""
    seconds: float = 0.0


def warm(host: Host, device: Device, settings: config.Settings, index: tuple[str, ...] = ()) -> Warmed:
    """Run the configured warm-up of a card, unless it has run. Blocks as long as that takes: call it on a worker.

    It is remembered beside the health checks; where that cannot be written, it may run once more in another process.
    """
    argv = settings.warmup.get("argv")
    if not argv or not host.live or device.address is None:
        return Warmed(ran=False)
    this = {**records.identity(device, kernel.boot_id(host)), "binding": records.binding(device)}
    name = f"{records.RUN}/warmup/{device.address}.json"
    if records.remembered(host, name) == this:
        return Warmed(ran=False)
    from .plugs.hooks import warm_up

    began = host.now()
    passed, said = warm_up(device, argv, float(settings.warmup.get("timeout", TIMEOUT_S)), index)
    if not host.redacted:
        with suppress(HotplugError):
            records.save(name, this)
    return Warmed(True, passed, said, round(max(0.0, host.now() - began), 3))
