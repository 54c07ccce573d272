"""The second handshake: an independent health check, run now and remembered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from . import records
from .errors import Exit, HotplugError
from .host import Ran
from .lifecycle import HealthRecord
from .look import Look, profile_for
from .model import Device, Handshake, Machine, Probed, Profile, State, Unknown
from .probe import row
from .readers import pci, runtime


def shaken(seen: Look, found: Machine, asked: Sequence[Device]) -> Machine:
    """The machine after the health check of each device asked about has run and its result was remembered.

    Where it cannot be kept (no root), it counts for this run alone.
    """
    if not seen.host.live:
        raise HotplugError(
            "--handshake cannot be used with --root", why="a captured machine runs nothing", hint="leave --root out",
            exit=Exit.USAGE,
        )
    wanted = {device.address for device in asked}
    return replace(found, devices=tuple(_shaken(seen, d) if d.address in wanted else d for d in found.devices))


def _shaken(seen: Look, device: Device) -> Device:
    function = seen.by_address.get(device.address or "")
    profile = profile_for(seen.profiles, function) if function is not None else None
    asked = device.rung in (State.INITIALISED, State.READY)  # below them there is nothing to ask
    if function is None or profile is None or profile.handshake is None or not asked:
        return device
    remember(seen, device, function.address, health_check(seen, function, profile))
    return row(seen, function, profile, close=isinstance(device, Probed))


def remember(seen: Look, device: Device, address: str, result: tuple[bool, str]) -> None:
    """Let a result count for this run, and for later ones where it can be kept (root can)."""
    passed, said = result
    seen.checked[address] = HealthRecord(passed, age_s=0.0, current=True, said=said)
    if not seen.host.redacted:  # a record of aliases would fit no card; this run still knows the result
        with suppress(HotplugError):
            records.keep_health(device, seen.boot_id, result, seen.host.now())


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
            if not says_so(check, answer.stdout, index=one, address=function.address):
                return False, f"{argv[0]} does not say that it is well"
    return True, "passed"


def says_so(check: Handshake, output: str, *, index: str, address: str) -> bool:
    """Does the output hold what the profile expects of this very card?"""
    if check.expect is None:
        return True
    pattern = check.expect.replace("{index}", re.escape(index)).replace("{address}", re.escape(address))
    return re.search(pattern, output) is not None
