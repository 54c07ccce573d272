"""Log files of the machine looked at, by the globs of profiles and configuration: the newest of each, at their end."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from ..host import Host
from ..model import Gap, Kind, LogFile, LogLine, Unknown
from .logs import read_log

MOST_FILES = 24         # of one glob, the newest
MOST_NAMES = 20_000     # looked at for one glob
MOST_TOTAL = 32 << 20   # characters of all files: a capture carries them
DEEPEST = 8
_NUMBERS = re.compile(r"\d{8,20}")


def read(host: Host, wanted: Sequence[LogFile], after: datetime) -> tuple[tuple[LogLine, ...], tuple[Gap, ...]]:
    """The lines that were written after a moment (in the machine's own time), and what could not be read.

    A line without a time is as old as the one above it; a file without any is not known to be new, and left out.
    """
    lines: list[LogLine] = []
    gaps: list[Gap] = []
    total = 0
    for path in dict.fromkeys(path for log in wanted for path in newest(files(host, log.path))):
        if total > MOST_TOTAL:
            gaps.append(Gap(path, "not read: there are too many log files", half=True))
            break
        text = host.log(path)
        if isinstance(text, str):
            total += len(text)
            lines.extend(_since(read_log(text, path), after))
        elif isinstance(text, Unknown) and text.kind is not Kind.NOT_CAPTURED:
            gaps.append(Gap(path, text.why))
    return tuple(lines), tuple(gaps)


def files(host: Host, glob: str) -> list[str]:
    """The paths that a glob means; `**` stands for any folders, none too."""
    return list(islice(_matching(host, "", [part for part in glob.split("/") if part], 0), MOST_NAMES))


def newest(paths: Sequence[str]) -> list[str]:
    """The last by the times in their names, as runtimes name their files; without one by name."""
    def age(path: str) -> tuple[str, str]:
        numbers: list[str] = _NUMBERS.findall(path.rsplit("/", 1)[-1])
        return (max(numbers, key=len) if numbers else "", path)

    return sorted(sorted(paths, key=age)[-MOST_FILES:])


def _matching(host: Host, folder: str, parts: list[str], depth: int) -> Iterator[str]:
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matching(host, folder, rest, depth)
        if depth < DEEPEST:
            for name in _names(host, folder):
                if "." not in name:      # a folder as far as its name tells; what is none has no names in it
                    yield from _matching(host, f"{folder}/{name}", parts, depth + 1)
    elif any(sign in part for sign in "*?["):
        for name in _names(host, folder):
            if fnmatch.fnmatchcase(name, part):
                yield from _matching(host, f"{folder}/{name}", rest, depth + 1)
    else:
        yield from _matching(host, f"{folder}/{part}", rest, depth + 1)


def _names(host: Host, folder: str) -> tuple[str, ...]:
    names = host.names(folder or "/")
    return names if isinstance(names, tuple) else ()


def _since(lines: Sequence[LogLine], after: datetime) -> Iterator[LogLine]:
    fresh = False
    for line in lines:
        if line.time is not None:
            fresh = _is_after(line.time, after)
        if fresh:
            yield line if line.time is None or not line.time.startswith("--") else _with_year(line, after)


def _is_after(time: str, after: datetime) -> bool:
    """`time` without a zone is the machine's own, and so is `after`; without a year it is of the same one."""
    try:
        said = datetime.fromisoformat(_dated(time, after))
    except ValueError:
        return False
    return said >= (after.astimezone() if said.tzinfo is not None else after)


def _dated(time: str, after: datetime) -> str:
    return f"{after.year}-{time.removeprefix('--')}" if time.startswith("--") else time


def _with_year(line: LogLine, after: datetime) -> LogLine:
    return replace(line, time=_dated(line.time or "", after))
