"""`python -m tests.bench`: what listening costs and how soon an event is in hand, ours against udevadm's."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from statistics import median

from . import announce, listeners, scan, whole_way
from .listeners import Cost, Times

OTHER = "pci"     # what watch listens to; a storm about /dev/null is none of it


def storms(count: int) -> None:
    """CPU, losses and memory of each listener at one storm each."""
    def storm() -> float:
        with announce.Announcer() as announcer:
            return announcer.storm(count)

    print(f"storm of {count:,} events, as fast as the kernel sends them")
    print(f"  {'':46} {'us/event':>8} {'events':>8} {'lost':>6} {'peak MiB':>8} {'sent in':>8}")
    base = show("udevadm monitor --kernel", listeners.udevadm_cost(storm), count)
    match = f"--subsystem-match={OTHER}"
    matched = show(f"udevadm monitor --kernel {match}", listeners.udevadm_cost(storm, match), count)
    rows = {
        "ours, irrelevant": ("filtered", OTHER),
        "ours, irrelevant, without the kernel's filter": ("unfiltered", OTHER),
        "ours, every event relevant": ("filtered", announce.SUBSYSTEM),
    }
    cost = {name: show(name, listeners.our_cost(storm, *how), count) for name, how in rows.items()}
    print("  CPU an event, ours / udevadm (with its subsystem match)")
    for name, mine in cost.items():
        print(f"    {name:44} {mine / base:8.4f} ({mine / matched:.4f})")


def show(name: str, cost: Cost, count: int) -> float:
    """Print a row. Returns the microseconds of CPU an event."""
    each = cost.cpu_s / count * 1e6
    events, lost = ("-" if number is None else number for number in (cost.events, cost.lost))
    print(f"  {name:46} {each:8.3f} {events:>8} {lost:>6} {cost.peak_kib / 1024:8.1f} {cost.work_s:7.2f}s")
    return each


def latencies(count: int, rounds: int) -> None:
    """From just before the kernel is told to send; in turns, so that both meet the same machine."""
    sent: dict[str, float] = {}

    def pace() -> float:
        started = time.monotonic()
        sent.clear()
        with announce.Announcer() as announcer:
            for number in range(count):
                sent[str(number)] = announcer.say(N=number)
                time.sleep(0.002)
        return time.monotonic() - started

    match = f"--subsystem-match={announce.SUBSYSTEM}"
    runs: dict[str, Callable[[], Times]] = {
        "ours": lambda: listeners.our_times(pace, announce.SUBSYSTEM),
        "udevadm": lambda: listeners.udevadm_times(pace, match),
    }
    waits: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            times = run()
            for stage, at in (("out of the socket", times.received), ("in a program's hand", times.held)):
                waits.setdefault((stage, name), []).extend(1e6 * (when - sent[number]) for number, when in at.items())
    print(f"\na relevant event, {rounds} x {count} of them 2 ms apart, us after sending")
    for (stage, name), values in sorted(waits.items(), reverse=True):
        values.sort()
        print(f"  {stage:20} {name:8} median {median(values):7.1f}  p99 {values[len(values) * 99 // 100]:8.1f}"
              f"  of {len(values)}")
    for stage in ("out of the socket", "in a program's hand"):
        ratio = median(waits[stage, "ours"]) / median(waits[stage, "udevadm"])
        print(f"  {stage:20} ours / udevadm, medians: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--storm", type=int, default=300_000, help="events in a storm")
    parser.add_argument("--paced", type=int, default=300, help="events of one round of latencies")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    if not announce.allowed() or shutil.which("udevadm") is None:
        sys.exit(f"needs root, to write {announce.NULL}, and udevadm (Debian package udev)")
    storms(options.storm)
    latencies(options.paced, options.rounds)
    whole_way.report(options.paced)
    scan.report()


if __name__ == "__main__":
    main()
