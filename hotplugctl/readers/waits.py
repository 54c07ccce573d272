"""Where in the kernel a driver's probe or remove waits, and which lines of the kernel's log are about a slot's thread.

A slot's pciehp thread is named after its port's interrupt, "irq/N-pciehp" (drivers/pci/hotplug/pciehp_hpc.c). It
brings cards up and takes them away, the drivers' probe and remove included, in one go; so does a process that writes to
sysfs. sysfs shows neither: only the stack tells, and stacks need root.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..host import Host, Seen, Sought
from ..model import Kind, LogLine, Maybe, Profile, Unknown

# The PCI core around a driver's own functions (drivers/pci/pci-driver.c).
PROBES, REMOVES = "local_pci_probe", "pci_device_remove"

_FRAME = re.compile(r"^\[<[0-9a-f]+>\] (?P<function>[\w.]+)\+0x\S+(?P<module> \[\w+\])?", re.MULTILINE)
_NAMED = re.compile(r"\birq/(?P<interrupt>\d+)-pciehp")
# A trace begins with what happened and ends with its stack (lib/dump_stack.c, arch/x86/kernel/dumpstack.c).
_BEGINS = re.compile(
    r"BUG: |kernel BUG at|Oops[:-]|general protection fault|Unable to handle kernel|INFO: task |WARNING: CPU"
)
_ENDS = re.compile(r"^\s*</TASK>|---\[ end trace")
_LONGEST = 120      # lines; a longer one was cut, and what follows is something else


@dataclass(frozen=True, slots=True)
class Waiting:
    """A driver's function that has not returned: `where` it waits, and `who` waits there: the task's directory."""

    where: str
    who: str


@dataclass(frozen=True, slots=True)
class Write:
    """A write to sysfs that its child has not returned from: what is written where, and who does it."""

    target: str
    text: str
    pid: int
    start_time: int


def hotplug_threads(host: Host) -> Mapping[str, str]:
    """The kernel's hot-plug threads: interrupt -> directory in /proc.

    Process 2, kthreadd, is the parent of all of them: names of other processes are not looked at, nor captured.
    """
    found: dict[str, str] = {}
    threads = host.text("/proc/2/task/2/children")
    for thread in threads.split() if isinstance(threads, str) else ():
        name = host.text(f"/proc/{thread}/comm")
        # At most 15 characters, TASK_COMM_LEN: "irq/12345-pcieh".
        if isinstance(name, str) and (match := re.fullmatch(r"irq/(\d+)-pcieh?p?", name)):
            found[match[1]] = f"/proc/{thread}"
    return found


def interrupts(host: Host, port: str) -> Maybe[tuple[str, ...]]:
    """The interrupts of a port, given its directory in sysfs."""
    return host.names(f"{port}/msi_irqs")


def in_threads(host: Host, port: str, threads: Mapping[str, str], call: str) -> Maybe[Waiting]:
    """What waits below `call` in the hot-plug thread of this port; None = nothing does."""
    numbers = interrupts(host, port)
    if not isinstance(numbers, tuple):
        return numbers
    for number in numbers:
        if number in threads and (found := in_stack(host, threads[number], call)) is not None:
            return found
    return None


def in_writes(host: Host, writes: Sequence[Write], names: Collection[str], call: str) -> Waiting | None:
    """What waits below `call` in a write that unbinds or removes one of these addresses."""
    for write in writes:
        about = {write.text, *write.target.split("/")}
        if about.isdisjoint(names) or _started(host, write.pid) != write.start_time:
            continue
        found = in_stack(host, f"/proc/{write.pid}", call)
        if isinstance(found, Waiting):
            return found
    return None


def controls(names: Collection[str], profile: Profile) -> tuple[str, ...]:
    """The files (fnmatch) by a write to which a driver of this profile is made to let go of one of these addresses."""
    drivers = ("*",) if profile.any_driver else profile.drivers
    return (*(f"*/drivers/{name}/unbind" for name in drivers), *(f"*/{name}/remove" for name in sorted(names)))


def in_processes(host: Host, patterns: tuple[str, ...], call: str) -> Maybe[Waiting]:
    """What waits below `call` in a process that has one of these files open."""
    seen = host.holders(Sought(controls=patterns))
    if not isinstance(seen, Seen):
        return seen
    found = (in_stack(host, f"/proc/{file.pid}", call) for file in seen.files)
    return next((one for one in found if isinstance(one, Waiting)), None)


def _started(host: Host, pid: int) -> int | None:
    """When a process began, in clock ticks since boot: field 22 of its stat, counted behind its name (proc(5))."""
    text = host.text(f"/proc/{pid}/stat")
    rest = text.rpartition(")")[2].split() if isinstance(text, str) else []
    return int(rest[19]) if len(rest) > 19 and rest[19].isdigit() else None


def in_stack(host: Host, task: str, call: str) -> Maybe[Waiting]:
    """Where a task waits below `call`; None = it is not in there."""
    where = _below(host.text(f"{task}/stack"), call)
    return Waiting(where, task) if isinstance(where, str) else where


def still(host: Host, found: Waiting, call: str, patience: float) -> Maybe[Waiting]:
    """Is it in there still, `patience` seconds later?"""
    host.pause(patience)
    # By its other name, so that a capture keeps both looks.
    pid = found.who.rsplit("/", 1)[1]
    where = _below(host.text(f"{found.who}/task/{pid}/stack"), call)
    if isinstance(where, Unknown):
        return found if where.kind is Kind.NOT_CAPTURED else where
    return found if where is not None else None


def _below(stack: Maybe[str], call: str) -> Maybe[str]:
    """The innermost function above `call` in a stack: a module's if there is one, which tells more than `msleep`."""
    if not isinstance(stack, str):
        return stack
    frames = [(match["function"], match["module"]) for match in _FRAME.finditer(stack)]
    at = next((n for n, (function, _) in enumerate(frames) if function == call), None)
    if at is None:
        return None
    return next((function for function, module in frames[:at] if module), frames[0][0])


def of_threads(lines: Sequence[LogLine], ports: Mapping[str, str]) -> tuple[LogLine, ...]:
    """The lines, with the port's address on those that name its hot-plug thread, and on the rest of such a trace.

    `ports`: interrupt -> address of the port. A line that names a device already is left alone.
    """
    found = list(lines)
    start: int | None = None
    owner: str | None = None
    for at, line in enumerate(lines):
        if start is None and _BEGINS.search(line.text):
            start, owner = at, None
        named = _NAMED.search(line.text)
        if named is not None and named["interrupt"] in ports:
            owner = ports[named["interrupt"]]
            for earlier in range(start if start is not None else at, at):
                _give(found, earlier, owner)
        if owner is not None:
            _give(found, at, owner)
        if start is None or _ENDS.search(line.text) or at - start > _LONGEST:
            start = owner = None
    return tuple(found)


def names_thread(lines: Sequence[LogLine]) -> bool:
    """Is a hot-plug thread named at all?"""
    return any(_NAMED.search(line.text) for line in lines)


def _give(lines: list[LogLine], at: int, address: str) -> None:
    if lines[at].address is None:
        lines[at] = replace(lines[at], address=address)
