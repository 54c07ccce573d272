"""What to collect for each station of the walk that could not be looked at, in commands that fit this card. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Check, Port
from ..rules.judge import Subject
from .walk import NO_CARD, NOT_REACHED

# `{port}` needs a known port, `{address}` a card on the bus: a command whose words are not known is left out.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "presence": ("sudo lspci -vvv -s {port}",), "latch": ("sudo lspci -vvv -s {port}",),
    "power": ("sudo lspci -vvv -s {port}",), "link": ("sudo lspci -vvv -s {port}", "sudo lspci -vvv -s {address}"),
    "enumeration": ("sudo lspci -nn",), "bars": ("sudo lspci -vvv -s {address}", "sudo cat /proc/iomem"),
    "driver": ("lspci -nnk -s {address}", "lsmod"), "firmware": ("sudo tar czf vendor-logs.tar.gz {logs}",),
    "nodes": ("ls -l {folders}",), "permissions": ("ls -l {nodes}", "id"),
    "runtime": ("{check}", "sudo tar czf vendor-logs.tar.gz {logs}"), "listener": ("sudo fuser -v {nodes}",),
}


def commands(checks: Sequence[Check], subject: Subject) -> tuple[str, ...]:
    """The commands for what is unknown, in the order of the walk; what lies beyond a fault needs none yet."""
    known = _words(subject)
    found: dict[str, None] = {}
    for check in checks:
        if check.state != "unknown" or check.because == NO_CARD or check.because.startswith(NOT_REACHED):
            continue
        for command in NEEDED[check.name]:
            words = {name: known[name] for name in known if f"{{{name}}}" in command}
            if command.count("{") == len(words):
                found.setdefault(command.format(**words))
    return tuple(found)


def _words(subject: Subject) -> dict[str, str]:
    """What the commands may name, as far as it is known."""
    device, profile = subject.device, subject.profile
    words: dict[str, str] = {}
    if isinstance(subject.port, Port):
        words["port"] = subject.port.address
    if device is not None and device.address is not None:
        words["address"] = device.address
        if isinstance(device.nodes, tuple) and device.nodes:
            words["nodes"] = " ".join(node.path for node in device.nodes)
    if profile is None:
        return words
    folders = [*dict.fromkeys(pattern.split("{")[0].rsplit("/", 1)[0] or "/dev" for pattern in profile.nodes)]
    words["folders"] = " ".join(folders) or "/dev/accel /dev/dri"
    if profile.logs:
        words["logs"] = " ".join(dict.fromkeys(_folder(log.path) for log in profile.logs))
    check = profile.handshake
    if check is not None and "address" in words and not any("{index}" in part for part in check.argv):
        words["check"] = " ".join(part.format(address=words["address"]) for part in check.argv)
    return words


def _folder(glob: str) -> str:
    """The folder above the first sign of a glob; a plain file stays."""
    fixed = glob.split("*", 1)[0]
    return glob if fixed == glob else fixed.rsplit("/", 1)[0]
