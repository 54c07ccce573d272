"""The processes compared: our reader and `udevadm monitor --kernel`, started, left alone, ended and asked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
READER = [sys.executable, "-m", "tests.bench.reader"]
CALM_S = 0.5   # no CPU used for so long: the backlog is worked off


@dataclass(frozen=True)
class Cost:
    """What a listener used while `work_s` seconds of work went on. None = it does not tell."""

    work_s: float
    cpu_s: float
    peak_kib: int
    lost: int | None = None
    events: int | None = None


@dataclass(frozen=True)
class Times:
    """Monotonic seconds by event number: out of the socket, and in the hand of a Python program."""

    received: dict[str, float]
    held: dict[str, float]


def our_cost(work: Callable[[], float], how: str, *subsystems: str) -> Cost:
    work_s, said = _ours(work, how, *subsystems)
    return Cost(work_s, said["cpu_s"], said["peak_kib"], said["lost"], said["events"])


def our_times(work: Callable[[], float], *subsystems: str) -> Times:
    _, said = _ours(work, "filtered", *subsystems)
    return Times(said["received"], said["held"])


def udevadm_cost(work: Callable[[], float], *options: str) -> Cost:
    """Its output goes nowhere, which is cheapest for it."""
    process = _udevadm(subprocess.DEVNULL, *options)
    try:
        before = _cpu(process.pid)
        work_s = work()
        _calm(process.pid)
        return Cost(work_s, _cpu(process.pid) - before, _peak(process.pid))
    finally:
        process.terminate()
        process.wait()


def udevadm_times(work: Callable[[], float], *options: str) -> Times:
    with subprocess.Popen([*READER, "lines"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()
        process = _udevadm(reader.stdin.fileno(), "--property", *options)
        try:
            work()
            _calm(process.pid)
        finally:
            process.terminate()
            process.wait()
        said = json.loads(reader.communicate(timeout=60)[0])
    return Times(said["received"], said["held"])


def _ours(work: Callable[[], float], how: str, *subsystems: str) -> tuple[float, Any]:
    with subprocess.Popen([*READER, how, *subsystems], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if first.split() != ["ready", str(how == "filtered")]:
            raise RuntimeError(f"the reader does not listen {how}: {first!r}")
        work_s = work()
        return work_s, json.loads(process.communicate(timeout=120)[0])


def _udevadm(output: int, *options: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["udevadm", "monitor", "--kernel", *options], stdout=output)
    _calm(process.pid)
    return process


def _cpu(pid: int) -> float:
    """Seconds of CPU so far, to the nanosecond (sum_exec_runtime)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _peak(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def _calm(pid: int) -> None:
    before = -1.0
    while (now := _cpu(pid)) != before:
        before = now
        time.sleep(CALM_S)
