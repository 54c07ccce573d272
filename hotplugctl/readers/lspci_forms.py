"""The other forms of `lspci` (-n, -m, -mm, -vm, -vmm) -> the form that people see, which one reader reads. Pure."""

from __future__ import annotations

import re

_AT = r"(?P<at>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])"
_NUMERIC = re.compile(rf"{_AT} (?P<class>[0-9a-f]{{4}}): (?P<ids>[0-9a-f]{{4}}:[0-9a-f]{{4}})(?P<rest>(?: \(.*)?)$")
_QUOTED = re.compile(
    rf'{_AT} "(?P<class>[^"]*)" "(?P<vendor>[^"]*)" "(?P<device>[^"]*)"(?P<rest>.*)$')
_PAIR = re.compile(r"(?P<key>[A-Z][A-Za-z]+):\t(?P<value>.*)$")
_REVISION = re.compile(r"-r(?P<revision>[0-9a-f]{2})\b")
_NUMBER = re.compile(r"(?:^|\[)(?P<number>[0-9a-f]{4})\]?$")
# What lspci calls the classes that decide what a function is taken for (pci.ids, "List of known device classes").
_CLASSES = {
    "0600": "Host bridge", "0601": "ISA bridge", "0604": "PCI bridge", "0680": "Bridge",
    "0300": "VGA compatible controller",
    "0302": "3D controller", "0380": "Display controller", "1200": "Processing accelerators", "0b40": "Co-processor",
    "0108": "Non-Volatile memory controller", "0200": "Ethernet controller", "0403": "Audio device",
    "0880": "System peripheral", "1180": "Signal processing controller",
}
# How the long form words what -vmm has as pairs.
_BELOW = {
    "PhySlot": "Physical Slot: {}", "NUMANode": "NUMA node: {}", "IOMMUGroup": "IOMMU group: {}",
    "Driver": "Kernel driver in use: {}", "Module": "Kernel modules: {}",
}
_LOOK = 4000        # characters that tell the form


def usual_form(text: str) -> str:
    """The text with each function as `ADDRESS CLASS [ID]: NAME [VENDOR:DEVICE]`; what is so already stays."""
    text = text.replace("\r\n", "\n")
    start = text[:_LOOK]
    if re.search(r"(?m)^(?:Slot|Device):\t" + _AT.replace("?P<at>", "?:") + "$", start):
        return "\n".join(_of_pairs(block) for block in re.split(r"\n\s*\n", text))
    if any(_NUMERIC.match(line) or _QUOTED.match(line) for line in start.splitlines()):
        return "\n".join(_of_line(line) for line in text.splitlines())
    return text


def _of_line(line: str) -> str:
    if (match := _NUMERIC.match(line)) is not None:
        name = _CLASSES.get(match["class"], f"Class {match['class']}")
        return f"{match['at']} {name} [{match['class']}]: Device [{match['ids']}]{match['rest']}"
    if (match := _QUOTED.match(line)) is not None:
        revision = _REVISION.search(match["rest"])
        return _headline(match["at"], match["class"], match["vendor"], match["device"],
        revision and revision["revision"])
    return line


def _of_pairs(block: str) -> str:
    pairs = [(match["key"], match["value"].strip()) for match in map(_PAIR.match, block.splitlines()) if match]
    if not pairs or pairs[0][0] not in ("Slot", "Device"):
        return block
    at, rest = pairs[0][1], dict(reversed(pairs[1:]))
    head = _headline(at, rest.get("Class", ""), rest.get("Vendor", ""), rest.get("Device", ""), rest.get("Rev"))
    return "\n".join([head, *(f"\t{words.format(rest[key])}" for key, words in _BELOW.items() if key in rest)])


def _headline(at: str, class_: str, vendor: str, device: str, revision: str | None) -> str:
    """A function's first line. A name may come with its number in brackets, or be nothing but its number."""
    numbers = [match["number"] if (match := _NUMBER.search(name)) else None for name in (class_, vendor, device)]
    bare = [_NUMBER.sub("", name).strip() for name in (class_, vendor, device)]
    kind = bare[0] or _CLASSES.get(numbers[0] or "", f"Class {numbers[0]}")
    ids = f" [{numbers[1]}:{numbers[2]}]" if numbers[1] and numbers[2] else ""
    end = f" (rev {revision})" if revision else ""
    number = f" [{numbers[0]}]" if numbers[0] else ""
    return f"{at} {kind}{number}: {' '.join(filter(None, bare[1:])) or 'Device'}{ids}{end}"
