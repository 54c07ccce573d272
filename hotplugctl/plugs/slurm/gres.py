"""Which device file is which index of a GRES: `slurmd -G`, and gres.conf where that gives up. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

NOTHING = ("", "(null)", "N/A", "NONE", "None", "n/a", "Unknown")


@dataclass(frozen=True, slots=True)
class Device:
    """One index of a GRES on a node, and the files that it gives."""

    name: str
    type: str | None
    index: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gres:
    """The GRES of a node: its indices, and the names that cannot be closed or told by index, with the reason."""

    devices: tuple[Device, ...]
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()     # mps, shard: (name, files)
    counted: tuple[str, ...] = ()                            # no File at all


def expand(text: str) -> tuple[str, ...]:
    """`n[1-2,5],m07` as its names, in order; leading zeros are kept."""
    found: list[str] = []
    for word in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        parts = re.findall(r"\[.*?\]|[^\[]+", word)
        choices = product(*(_numbers(part[1:-1]) if part.startswith("[") else [part] for part in parts))
        found += ["".join(choice) for choice in choices]
    return tuple(found)


def _numbers(text: str) -> list[str]:
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            found.append(first)
            continue
        if not (first.isdigit() and last.isdigit()) or int(last) - int(first) > 65536:
            raise ValueError(f"{text!r} is no range")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def indices(text: str) -> tuple[int, ...]:
    """`0-1,3` as numbers; nothing and N/A are none."""
    if text in NOTHING:
        return ()
    try:
        return tuple(int(number) for number in _numbers(text))
    except ValueError:
        raise ValueError(f"IDX:{text} is no list of indices") from None


def of_slurmd(text: str) -> Gres:
    """`slurmd -G`: the lines in which Slurm numbers the devices, whatever their order in gres.conf."""
    lines = re.findall(r"Gres Name=.*", text)
    return _gres(_slurmd_line(line) for line in lines)


def _slurmd_line(line: str) -> tuple[str, str | None, int, tuple[str, ...]]:
    found = re.match(r"Gres Name=(\S+) Type=(\S+) Count=(\d+)", line)
    if found is None:
        raise ValueError(f"slurmd -G says {line!r}")
    file = re.search(r" File=(\S+)", line)
    return found[1], or_none(found[2]), int(found[3]), expand(file[1]) if file else ()


def of_file(text: str, node: str) -> Gres:
    """gres.conf itself, for when slurmd -G gives up because a File is gone.

    Slurm numbers by the order of slurm.conf where a name has several types: ValueError then.
    """
    lines = tuple(_conf_lines(text, node))
    types: dict[str, set[str | None]] = {}
    for name, kind, _, _ in lines:
        types.setdefault(name, set()).add(kind)
    for name, seen in types.items():
        if len(seen) > 1:
            raise ValueError(f"gres.conf alone does not tell the indices of {name}, which has several types")
    return _gres(iter(lines))


def files(text: str, node: str) -> tuple[str, ...]:
    """Every device file that gres.conf names for the node."""
    try:
        return tuple(file for *_, files in _conf_lines(text, node) for file in files)
    except ValueError:      # AutoDetect finds them itself
        return ()


def _conf_lines(text: str, node: str) -> Iterator[tuple[str, str | None, int, tuple[str, ...]]]:
    for line in text.splitlines():
        words = {
            key.lower(): value.strip('"') for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line.partition("#")[0])
        }
        if words.get("autodetect", "off").lower() not in ("off", "none"):
            raise ValueError("gres.conf leaves the devices to AutoDetect")
        if "name" not in words or ("nodename" in words and node not in expand(words["nodename"])):
            continue
        named = expand(words.get("file") or words.get("multiplefiles") or "")
        count = words.get("count") or ("1" if "multiplefiles" in words else str(len(named)))
        yield words["name"], words.get("type"), int(count) if count.isdigit() else 0, named


def _gres(lines: Iterator[tuple[str, str | None, int, tuple[str, ...]]]) -> Gres:
    devices: list[Device] = []
    shared: list[tuple[str, tuple[str, ...]]] = []
    counted: list[str] = []
    for name, kind, count, files in lines:
        if not files:
            counted.append(name)
        elif count == len(files) and name not in ("mps", "shard"):
            for file in files:
                devices.append(Device(name, kind, _next(devices, name), (file,)))
        elif count == 1 and name not in ("mps", "shard"):   # MultipleFiles: one thing of several files
            devices.append(Device(name, kind, _next(devices, name), files))
        else:
            shared.append((name, files))
    return Gres(tuple(devices), tuple(shared), tuple(dict.fromkeys(counted)))


def _next(devices: list[Device], name: str) -> int:
    return sum(device.name == name for device in devices)


def or_none(text: str) -> str | None:
    """Slurm's many words for nothing."""
    return None if text in NOTHING else text
