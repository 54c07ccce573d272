"""The processes compared: our reader and `udevadm monitor --kernel`, started, left alone, ended and asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CALM_S = 0.5   # no CPU used for so long: the backlog is worked off


@dataclass(frozen=True)
class Listened:
    """What a listener did while `work` went on. `received` is monotonic seconds by event number; None = not told."""

    work_s: float
    cpu_s: float
    peak_kib: int
    lost: int | None = None
    events: int | None = None
    received: dict[str, float] = field(default_factory=dict)


def ours(work: Callable[[], float], how: str, *subsystems: str) -> Listened:
    """Our reader, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.reader", how, *subsystems]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if first.split() != ["ready", str(how == "filtered")]:
            raise RuntimeError(f"the reader does not listen {how}: {first!r}")
        work_s = work()
        said = json.loads(process.communicate(timeout=120)[0])
    return Listened(work_s, said["cpu_s"], said["peak_kib"], said["lost"], said["events"], said["received"])


def udevadm(work: Callable[[], float], *options: str) -> Listened:
    """udevadm, its output to a file when properties are asked for, else to nowhere, which is cheapest for it."""
    with tempfile.TemporaryFile("w+") as output, open(os.devnull, "w") as nowhere:
        command = ["udevadm", "monitor", "--kernel", *options]
        process = subprocess.Popen(command, stdout=output if "--property" in options else nowhere)
        try:
            _calm(process.pid)
            start_s = _cpu(process.pid)
            work_s = work()
            _calm(process.pid)
            cpu_s = _cpu(process.pid) - start_s
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.terminate()
            process.wait()
        output.seek(0)
        text = output.read()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    received = {
        number: float(at) for at, number in
        re.findall(r"^KERNEL\[([\d.]+)\][^\n]*\n(?:[^\n]+\n)*?SYNTH_ARG_N=(\d+)\n", text, re.MULTILINE)
    }
    return Listened(work_s, cpu_s, int(peak[1]) if peak else 0, received=received)


def _cpu(pid: int) -> float:
    """Seconds of CPU so far, to the nanosecond (sum_exec_runtime)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _calm(pid: int) -> None:
    before = -1.0
    while (now := _cpu(pid)) != before:
        before = now
        time.sleep(CALM_S)
