"""What a drain adds once the last holder is gone: to the bare writes, on a made-up sysfs in a mount namespace.

Usage: python -m tests.bench.drain [ROUNDS]. It makes its own mount and pid namespaces, mounts a built tree over /sys
there, and plays the kernel: a write to `unbind` takes the driver away, `power` 0 takes the card off the bus. So
everything of hotplugctl is real and as fast as this machine; the kernel's own time is left out, on both sides.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from hotplugctl import config, look, probe
from hotplugctl.drain import run
from hotplugctl.drain.site import Wish
from hotplugctl.drain.survey import Survey
from hotplugctl.host import Seen, Sought
from hotplugctl.host.live import Live
from hotplugctl.model import Plan, Profile

from ..machine import LAB, MachineTree

ADDRESS = "0000:01:00.0"
SLOT = Path("/sys/bus/pci/slots/1")
INSIDE = "HOTPLUGCTL_BENCH_INSIDE"


class Machine(Live):
    """This machine, whose other pid namespaces have nothing to do with the made-up card."""

    def holders(self, sought: Sought) -> Seen:
        """The scan as it is, without its doubt."""
        found = super().holders(sought)
        return replace(found, unseen=None) if isinstance(found, Seen) else Seen()


def tree(root: Path, node: str) -> MachineTree:
    """One card in a slot, with a node that can really be opened (a terminal of ours)."""
    machine = MachineTree(root)
    machine.port()
    here = machine.card(driver=None)
    number = os.stat(node).st_rdev
    machine.put(f"{here}/accel/accel0/dev", f"{os.major(number)}:{os.minor(number)}")
    machine.put(f"{here}/accel/accel0/uevent", f"DEVNAME={node.removeprefix('/dev/')}")
    machine.put(f"{here}/uevent", "")
    machine.put("/sys/bus/pci/drivers/labaccel/unbind", "")
    return machine


class Kernel(threading.Thread):
    """Does what a write asks for, at once."""

    def __init__(self, here: str) -> None:
        super().__init__(daemon=True)
        self.here, self.over = Path(here), threading.Event()

    def run(self) -> None:
        unbind, power = Path("/sys/bus/pci/drivers/labaccel/unbind"), SLOT / "power"
        while not self.over.wait(0.0005):
            if unbind.read_text().strip():
                (self.here / "driver").unlink(missing_ok=True)
                unbind.write_text("")
            if power.read_text().strip() == "0" and self.here.exists():
                Path(f"/sys/bus/pci/devices/{ADDRESS}").unlink(missing_ok=True)
                shutil.rmtree(self.here, ignore_errors=True)


def bare(here: str) -> float:
    """The writes alone, each until it is seen to have taken effect."""
    began = time.monotonic()
    (Path(here) / "driver/unbind").write_text(ADDRESS)
    until(lambda: not os.path.islink(f"{here}/driver"))
    (SLOT / "power").write_text("0")
    until(lambda: not os.path.exists(here))
    return time.monotonic() - began


def until(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.0002)


def ours(node: str) -> tuple[float, list[str]]:
    """From the end of the last holder to the end of the last step."""
    holder = subprocess.Popen(["sleep", "600"], stdin=open(node, "rb"))  # noqa: SIM115  the child has it
    seen = look.look(Machine(), config.Settings(), run_profiles())
    machine = probe.machine(seen)
    wish = Wish(goal="power", timeout_s=60.0)
    ended: list[float] = []

    def end() -> None:
        ended.append(time.monotonic())
        holder.kill()
        holder.wait()

    def said(text: str) -> None:
        if text.startswith("waiting") and not ended:
            threading.Timer(0.3, end).start()

    def document(_plan: Plan) -> str:
        return ""

    talk = run.Talk(say=said, ask=lambda _: None, confirm=lambda _: None, document=document, by="bench")
    plan = run.begin(Survey(seen, machine, wish), machine.devices, wish, talk, yes=True)
    return time.monotonic() - ended[0], [f"{step.do} {step.took_s * 1000:.0f} ms" for step in plan.done]


def run_profiles() -> tuple[Profile, ...]:
    """The shipped ones and the lab's."""
    from hotplugctl.rules import load

    file = Path(tempfile.mkdtemp()) / "lab.yaml"
    file.write_text(LAB)
    return load.profiles([file])


def one_round(drained: bool) -> tuple[float, list[str]]:
    """A fresh sysfs, and either the bare writes or a drain."""
    master, slave = pty.openpty()
    node = os.ttyname(slave)
    os.close(slave)
    root = Path(tempfile.mkdtemp(dir="/dev/shm"))
    machine = tree(root, node)
    here = machine.paths[ADDRESS]
    subprocess.run(["mount", "--bind", str(root / "sys"), "/sys"], check=True)
    os.symlink("/sys/bus/pci/drivers/labaccel", f"{here}/driver")
    kernel = Kernel(here)
    kernel.start()
    try:
        return ours(node) if drained else (bare(here), [])
    finally:
        kernel.over.set()
        kernel.join()
        subprocess.run(["umount", "/sys"], check=True)
        shutil.rmtree(root)
        os.close(master)


def main(rounds: int) -> None:
    kept = Path(tempfile.mkdtemp(dir="/var/tmp"))      # on a disk, so that a record on the disk costs what it costs
    for folder in ("/run/hotplugctl", "/var/lib/hotplugctl"):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "--bind", str(kept), folder], check=True)
    plain: list[float] = []
    added: list[float] = []
    steps: list[str] = []
    for _ in range(rounds):
        shutil.rmtree(kept / "drain", ignore_errors=True)
        plain.append(one_round(drained=False)[0])
        took, steps = one_round(drained=True)
        added.append(took)
    print("from the end of the last holder to a powered-off slot, the kernel's own time left out on both sides")
    print(f"  the bare writes  median {median(plain) * 1000:7.1f} ms  of {rounds}")
    print(f"  drain            median {median(added) * 1000:7.1f} ms  worst {max(added) * 1000:.1f} ms")
    print(f"  drain adds       median {(median(added) - median(plain)) * 1000:7.1f} ms  (at most 300 ms is wanted)")
    print(f"  the last one: {', '.join(steps)}")
    shutil.rmtree(kept, ignore_errors=True)


if __name__ == "__main__":
    if os.environ.get(INSIDE) is None:
        inside = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "tests.bench.drain"]
        sys.exit(subprocess.run([*inside, *sys.argv[1:]], env={**os.environ, INSIDE: "1"}).returncode)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
