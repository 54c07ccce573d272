"""A process that only listens, as `watch` does between events: what it uses is what listening costs.

    python -m tests.bench.reader filtered|unfiltered SUBSYSTEM...

It says `ready`, reads until its standard input ends and nothing waits any more, and prints one JSON line.
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
                received[number] = now
    used = time.process_time() - before
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({**total, "cpu_s": used, "peak_kib": int(peak[1]) if peak else 0, "received": received}))


if __name__ == "__main__":
    main(*sys.argv[1:])
