"""The one place that changes something: a sysfs write, recorded before it acts, bounded, and verified by looking."""

from __future__ import annotations

from collections.abc import Callable

from . import records
from .errors import Exit, HotplugError
from .host import child
from .host.live import Live
from .readers import logs

DEADLINE = 10.0
STILL_S = 5.0           # a write that has outlived one deadline already is not given a whole one again
GLANCE_S = 0.02         # between two looks whether a write took


def write(
    host: Live, name: str, target: str, text: str, *, took: Callable[[], bool], deadline: float = DEADLINE,
    patience: float = 0.0, about: str | None = None,
) -> None:
    """Write `text` to `target` for the device `name`, and look whether it took, for at most `patience` seconds.

    The caller holds `records.lock(name, ...)`. `about` is the address whose kernel lines explain a write that hangs.
    Raises HotplugError: FAILED when an earlier write still hangs, when this one hangs beyond `deadline` seconds, or
    when it changed nothing; DENIED when it is not permitted.
    """
    earlier = records.unfinished_write(host, name)
    if earlier is not None:
        hanging, process = earlier
        patient = min(deadline, STILL_S)
        if not child.wait_for(process, patient):
            raise _hangs(host, name, f"an earlier write to {hanging}", child.stuck(process, patient), about)
        records.ended_write(name)
        if took():
            return      # it was this very write
    result = host.write(
        target, text, deadline, lambda process: records.begun_write(name, target, text, process, host.now())
    )
    if isinstance(result, child.Stuck):
        raise _hangs(host, name, f"writing {text!r} to {target}", result, about)
    records.ended_write(name)
    until = host.elapsed() + patience
    while not took():
        if host.elapsed() >= until:
            denied = result.errno in (1, 13) and not root(host)
            raise HotplugError(
                f"writing {text!r} to {target} had no effect", why=result.why,
                hint="run as root" if denied else f"hotplugctl diagnose {name}",
                exit=Exit.DENIED if denied else Exit.FAILED,
            )
        host.pause(GLANCE_S)


def announce(host: Live, path: str, text: str) -> str | None:
    """Let the kernel send a uevent of the device at `path`: None = it did, else why not. Nothing waits for an answer.

    Documentation/ABI/testing/sysfs-uevent: since Linux 4.13 with a uuid and keys of our own.
    """
    result = host.write(f"{path}/uevent", text, DEADLINE, lambda _: None)
    if isinstance(result, child.Stuck):
        return f"the write hangs in the kernel (pid {result.child.pid})"
    return None if result.errno == 0 else result.why


def root(host: Live) -> bool:
    """Have we any capability at all?"""
    return "CapEff:\t0000000000000000" not in str(host.text("/proc/self/status"))


def _hangs(host: Live, name: str, what: str, stuck: child.Stuck, about: str | None) -> HotplugError:
    top = stuck.stack.splitlines()[0] if stuck.stack else ""
    line = _explains(host, about)
    why = f"pid {stuck.child.pid} sleeps in {stuck.wchan}" + (f" ({top})" if top else "") + " and cannot be killed"
    return HotplugError(
        f"{what} hangs in the kernel", why=why + (f"; the kernel says: {line}" if line else ""),
        hint=f"leave the slot alone, and look: hotplugctl diagnose {name}", exit=Exit.FAILED,
        more={"stuck": {
            "pid": stuck.child.pid, "seconds": round(stuck.seconds, 1), "wchan": stuck.wchan,
            "stack": stuck.stack.splitlines(), "kernel_line": line,
        }},
    )


def _explains(host: Live, about: str | None) -> str | None:
    """The kernel's last line about the device: a driver that waits mostly says for what."""
    lines = logs.kernel(host) if about is not None else None
    found = [line.text for line in lines if line.address == about] if isinstance(lines, tuple) else []
    return found[-1] if found else None
