"""`python -m tests.bench`: what listening costs and how soon an event is in hand, ours against udevadm's."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable

from . import announce, listeners
from .listeners import Listened

OTHER = "pci"     # what watch listens to; a storm about /dev/null is none of it


def storms(count: int) -> None:
    """CPU, losses and memory of each listener at one storm each."""
    def storm() -> float:
        with announce.Announcer() as announcer:
            return announcer.storm(count)

    print(f"storm of {count:,} events, as fast as the kernel sends them")
    print(f"  {'':44} {'us/event':>8} {'events':>8} {'lost':>6} {'peak MiB':>8} {'sent in':>7}")
    base = show("udevadm monitor --kernel", listeners.udevadm(storm), count)
    matched = show(f"udevadm ... --subsystem-match={OTHER}", listeners.udevadm(storm, f"--subsystem-match={OTHER}"), count)
    rows = {
        "ours, irrelevant": ("filtered", OTHER),
        "ours, irrelevant, without the kernel's filter": ("unfiltered", OTHER),
        "ours, every event relevant": ("filtered", announce.SUBSYSTEM),
    }
    cost = {name: show(name, listeners.ours(storm, *how), count) for name, how in rows.items()}
    for name, mine in cost.items():
        print(f"  ratio {name} / udevadm: {mine / base:.3f} (with its subsystem match {mine / matched:.3f})")


def show(name: str, listened: Listened, count: int) -> float:
    """Print a row. Returns the microseconds of CPU an event."""
    each = listened.cpu_s / count * 1e6
    events, lost = ("-" if number is None else number for number in (listened.events, listened.lost))
    print(f"  {name:44} {each:8.3f} {events:>8} {lost:>6} {listened.peak_kib / 1024:8.1f} {listened.work_s:6.2f}s")
    return each


def latencies(count: int, rounds: int) -> None:
    """From just before the kernel is told to send until the event is in hand, parsed. In turns, so that both have the
    same machine. udevadm's time is the one it prints itself, without its way through a pipe.
    """
    sent: dict[str, float] = {}

    def pace() -> float:
        started = time.monotonic()
        sent.clear()
        with announce.Announcer() as announcer:
            for number in range(count):
                sent[str(number)] = announcer.say(N=number)
                time.sleep(0.002)
        return time.monotonic() - started

    runs: dict[str, Callable[[], Listened]] = {
        "ours": lambda: listeners.ours(pace, "filtered", announce.SUBSYSTEM),
        "udevadm": lambda: listeners.udevadm(pace, "--property", f"--subsystem-match={announce.SUBSYSTEM}"),
    }
    waits: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            received = run().received
            waits[name] += [1e6 * (at - sent[number]) for number, at in received.items()]
    print(f"\na relevant event, from sending to having it, {rounds} x {count} events 2 ms apart")
    for name, values in waits.items():
        values.sort()
        print(f"  {name:10} median {statistics.median(values):6.1f} us   p99 {values[len(values) * 99 // 100]:7.1f} us"
              f"   received {len(values)}")
    print(f"  ratio of medians: {statistics.median(waits['ours']) / statistics.median(waits['udevadm']):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--storm", type=int, default=300_000, help="events in a storm")
    parser.add_argument("--paced", type=int, default=500, help="events of one round of latencies")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    if not announce.allowed() or shutil.which("udevadm") is None:
        sys.exit(f"needs root, to write {announce.NULL}, and udevadm (Debian package udev)")
    storms(options.storm)
    latencies(options.paced, options.rounds)
    # The whole way, from a raw event to its Change on standard output, comes here: ours only, and its difference to
    # the median above (at most 20 ms is wanted).


if __name__ == "__main__":
    main()
