"""Which device and slot a log line names itself: addresses in all the ways in which logs write them."""

from __future__ import annotations

import re

from ..model import LogLine

_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"
FULL = re.compile(rf"(?<![0-9a-fA-F.])(?<!\d:){_ADDRESS}(?![0-9a-fA-F])")
# A card without its function (NVRM: `PCI:0000:3b:00`; old pciehp: `domain:bus:dev = 0000:09:00`), in a libvirt name, or
# without its domain. The last looks like a time of day, so it counts only behind a word that announces an address.
CARD = re.compile(r"(?:PCI:|bus:dev = |device at )([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F])(?![0-9a-fA-F:.])")
LIBVIRT = re.compile(r"\bpci_([0-9a-f]{4})_([0-9a-f]{2})_([01][0-9a-f])_([0-7])\b")
# A path in sysfs names the ports above a device first.
_PATH = re.compile(rf"/devices/pci[0-9a-f:]+(?:/{_ADDRESS})*/({_ADDRESS})(?![0-9a-fA-F])(?!/[0-9a-f]{{4,8}}:)")
SHORT = re.compile(
    r"(?:\bbdf ?[=:] ?|\b[Dd]evice[ =]\[?|\bhost=|\bslot=|\bPCI[: ]|\bBDF[\\\": ]{1,6}|\bGPU |\[|\bpci[@ ])"
    r"([0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])(?![\w.:])"
)
# What SHORT needs at least; simple, so that even `re` finds it fast in a large log.
BEHIND_A_WORD = r"(?:[ =\[@]|[^0-9]:)[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"
SLOT = re.compile(r"\b[Ss]lot ?[(\[]([^)\]]{1,32})[)\]]")
# Every form of an address holds this, or `pci_`; most lines hold neither.
_HINT = re.compile(r":[0-9a-fA-F]{2}[:.]")
# A port speaks of the card below it: these name it.
_SPOKEN_OF = re.compile(rf"(?:received from|received:|pci function|[Dd]evice|for) ({_ADDRESS})")


def located(line: LogLine) -> LogLine:
    """The line with the address and slot that its own text names."""
    text = line.text
    if ":" not in text and "_" not in text and "lot" not in text:
        return line
    address, also = _address_in(text) if _HINT.search(text) or "pci_" in text else (None, ())
    slot = SLOT.search(text) if "lot" in text else None
    if address is None and slot is None:
        return line
    return LogLine(         # five times as fast as replace(), and a log has a hundred thousand lines
        line.source, line.line, text, line.monotonic, line.time, line.priority, address, slot[1] if slot else None,
        also, line.host,
    )


def _address_in(text: str) -> tuple[str | None, tuple[str, ...]]:
    full = FULL.search(text)
    card = CARD.search(text)
    if full is not None:
        path = _PATH.search(text) if "/devices/pci" in text else None
        address = normal(path[1] if path is not None else full[0])
        rest = {normal(m[1]) for m in _SPOKEN_OF.finditer(text, full.end())}
        if card is not None:
            rest.add(normal(f"{card[1]}.0"))
        return address, tuple(sorted(rest - {address}))
    if card is not None:
        return normal(f"{card[1]}.0"), ()
    libvirt = LIBVIRT.search(text)
    if libvirt is not None:
        return "{}:{}:{}.{}".format(*libvirt.groups()), ()
    short = SHORT.search(text)
    return (f"0000:{short[1].lower()}", ()) if short is not None else (None, ())


def normal(address: str) -> str:
    """Lower case, and a domain of eight digits (nvidia-smi: `00000000:3B:00.0`) without its leading zeros."""
    domain, rest = address.lower().split(":", 1)
    return f"{domain.lstrip('0'):0>4}:{rest}"
