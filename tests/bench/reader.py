"""A process that only listens, as `watch` does between events: what it uses is what listening costs.

    python -m tests.bench.reader filtered|unfiltered SUBSYSTEM...    our reader
    udevadm monitor ... | python -m tests.bench.reader lines         a program that reads udevadm's lines

It says `ready`, reads until its standard input ends and nothing waits any more, and prints one JSON line. For each
event number: `received`, when it was out of the socket (udevadm's own word), `held`, when the program had it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from hotplugctl.host.waiting import Waiting
from hotplugctl.readers.uevents import KernelEvents


def main(how: str, *subsystems: str) -> None:
    events = KernelEvents(subsystems, filtered=how == "filtered")
    waiting = Waiting()
    waiting.add("events", events.fileno())
    waiting.add("end", sys.stdin.fileno())
    received: dict[str, float] = {}
    held: dict[str, float] = {}
    total = {"events": 0, "lost": 0, "seen": 0}
    print("ready", events.filtered, flush=True)
    before = time.process_time()
    while True:
        ready = waiting.wait(60)
        if "events" not in ready:
            break
        heard = events.read()
        now = waiting.now()
        total["events"] += len(heard.events)
        total["lost"] += heard.lost
        total["seen"] += heard.seen
        for event in heard.events:
            if number := event.properties.get("SYNTH_ARG_N"):
                received[number], held[number] = event.at, now
    used = time.process_time() - before
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({**total, "cpu_s": used, "peak_kib": int(peak[1]) if peak else 0, "received": received,
                      "held": held}))


def lines() -> None:
    received: dict[str, float] = {}
    held: dict[str, float] = {}
    at = 0.0
    print("ready", flush=True)
    for line in iter(sys.stdin.buffer.readline, b""):
        if line.startswith(b"KERNEL["):
            at = float(line[7:line.index(b"]")])
        elif line.startswith(b"SYNTH_ARG_N="):
            number = line[12:].strip().decode()
            received[number], held[number] = at, time.monotonic()
    print(json.dumps({"received": received, "held": held}))


if __name__ == "__main__":
    if sys.argv[1:] == ["lines"]:
        lines()
    else:
        main(*sys.argv[1:])
