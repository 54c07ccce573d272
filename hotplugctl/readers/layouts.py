"""Which files of a collection are evidence: known layouts as tables, and what any folder of logs may hold. Pure.

Sources: the plugins of sos (sos/report/plugins: pci, kernel, logs, nvidia, kubernetes), which name a command's output
after the command with `_` for blanks; the log folders of vendor drivers and runtimes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

SOSREPORT = "sos_commands/"
# The log folders of vendors, wherever the collection puts them.
_VENDOR_LOGS = (
    "*var/log/npu/*", "*root/ascend/log/*", "*home/*/ascend/log/*", "*var/log/ascend_seclog/*", "*var/log/mindx-dl/*",
    "*var/log/ascend-docker-runtime/*", "*var/log/hotreset_status.log", "*var/log/fabricmanager.log",
    "*var/log/nvidia-installer.log", "*var/log/nvidia-dcgm/*", "*var/log/habana_logs/*", "*.habana_logs/*",
    "*var/log/qaic*", "*nvidia-bug-report*.log*",
)
_TOOLS = ("nvidia-smi", "npu-smi", "hl-smi", "rocm-smi", "amd-smi", "xpu-smi", "dcgmi", "hailortcli", "xrt-smi")
_WORKLOADS = ("*device-plugin*", "sos_commands/kubernetes/*describe*", "sos_commands/kubernetes/*events*")


@dataclass(frozen=True, slots=True)
class Choice:
    """Of these globs the first that any file matches: they tell the same, the first one best."""

    globs: tuple[str, ...]


# The kernel's own buffer, else the journal of this boot, else the files of the log daemon.
KERNEL = Choice((
    "sos_commands/kernel/dmesg", "sos_commands/kernel/dmesg_-T", "sos_commands/general/dmesg*", "var/log/dmesg",
))
JOURNAL = Choice((
    "sos_commands/logs/journalctl_--no-pager_--boot", "sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
    "sos_commands/logs/journalctl_--no-pager_--boot_*0", "sos_commands/logs/journalctl_--no-pager",
    "sos_commands/logs/journalctl_--no-pager_--catalog", "sos_commands/logs/journalctl_*",
    "var/log/messages", "var/log/syslog", "var/log/kern.log",
))
LISTING = Choice((
    "sos_commands/pci/lspci_-nnvv*", "sos_commands/pci/lspci_-*vv*", "sos_commands/pci/lspci_-nn*",
    "sos_commands/pci/lspci",
))
SOS: tuple[Choice, ...] = (
    LISTING, KERNEL, JOURNAL,
    *(Choice((f"sos_commands/*/{tool}*",)) for tool in _TOOLS),
    *(Choice((glob,)) for glob in (*_VENDOR_LOGS, *_WORKLOADS)),
)
# What says nothing by its lines, whatever the folder.
_NO_EVIDENCE = re.compile(
    r"(?i)\.(?:py|pyc|so[\d.]*|ko(?:\.\w+)?|bin|hex|o|a|rpm|deb|png|jpe?g|gif|svg|pdf|html?|css|js|md|ya?ml|whl|c|h|cpp|hpp|"
    r"db|sqlite|pickle|pt|npz?|onnx|om|core|service|md5|sha\d+|sig|asc)$|(?:^|/)(?:\.git|__pycache__)/|(?:^|/)\.[^/]+$")
_UNRELATED = re.compile(r"(?:^|/)(?:sos_(?:logs|reports)|usr|boot|lib|lib64|bin|sbin|opt/[^/]+/lib)/")


def top_folder(names: Iterable[str]) -> str:
    """The one folder that everything lies in, with its slash; empty where there is none."""
    tops = {name.split("/", 1)[0] if "/" in name else "" for name in names}
    return f"{tops.pop()}/" if len(tops) == 1 and tops != {""} else ""


def is_sosreport(names: Iterable[str]) -> bool:
    """Was the folder made by sos?"""
    return any(name.startswith(SOSREPORT) or f"/{SOSREPORT}" in name for name in names)


def wanted(names: Sequence[str]) -> tuple[str, ...]:
    """The files that are read, in the order of their names; of a sosreport those that the table names."""
    top = top_folder(names)
    inner = {name: name.removeprefix(top) for name in names}
    if not is_sosreport(inner.values()):
        return tuple(sorted(n for n in names if not _NO_EVIDENCE.search(n) and not _UNRELATED.search(inner[n])))
    chosen: dict[str, None] = {}
    for choice in SOS:
        chosen.update(dict.fromkeys(first_of(choice, inner)))
    return tuple(sorted(chosen))


def first_of(choice: Choice, inner: dict[str, str]) -> list[str]:
    """The files of the first glob that has any; `inner` maps a file to its name below the top folder."""
    for glob in choice.globs:
        match = _matcher(glob)
        if found := [name for name, below in inner.items() if match(below)]:
            return found
    return []


def _matcher(glob: str) -> Callable[[str], bool]:
    pattern = re.compile(fnmatch.translate(glob))
    return lambda name: pattern.match(name) is not None
