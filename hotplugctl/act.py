"""The one place that changes something: a sysfs write, recorded before it acts, bounded, and verified by looking."""

from __future__ import annotations

from collections.abc import Callable

from . import records
from .errors import Exit, HotplugError
from .host import child
from .host.live import Live

DEADLINE = 10.0


def write(
    host: Live, name: str, target: str, text: str, *, took: Callable[[], bool], deadline: float = DEADLINE
) -> None:
    """Write `text` to `target` for the device `name`, and look whether it took.

    The caller holds `records.lock(name, ...)`. Raises HotplugError: FAILED when an earlier write still hangs, when this
    one hangs beyond `deadline` seconds, or when it changed nothing; DENIED when it is not permitted.
    """
    earlier = records.unfinished_write(host, name)
    if earlier is not None:
        what, process = earlier
        if not child.wait_for(process, deadline):
            raise _hangs(name, f"an earlier write of {what}", child.stuck(process, deadline))
        records.ended_write(name)
    result = host.write(
        target, text, deadline, lambda process: records.begun_write(name, target, text, process, host.now())
    )
    if isinstance(result, child.Stuck):
        raise _hangs(name, f"writing {text!r} to {target}", result)
    records.ended_write(name)
    if took():
        return
    denied = result.errno in (1, 13) and not _root()
    raise HotplugError(
        f"writing {text!r} to {target} had no effect", why=result.why,
        hint="run as root" if denied else f"hotplugctl diagnose {name}", exit=Exit.DENIED if denied else Exit.FAILED,
    )


def _root() -> bool:
    return "CapEff:\t0000000000000000" not in str(Live().text("/proc/self/status"))


def _hangs(name: str, what: str, stuck: child.Stuck) -> HotplugError:
    where = f"pid {stuck.child.pid} sleeps in {stuck.wchan}"
    top = f" ({stuck.stack.splitlines()[0]})" if stuck.stack else ""
    return HotplugError(
        f"{what} hangs in the kernel", why=f"{where}{top} and cannot be killed",
        hint=f"leave the slot alone, and look: hotplugctl diagnose {name}", exit=Exit.FAILED,
    )
