"""Is it this card? Told from the names that a device plugin or a driver gives to devices. Pure.

A wrong yes evicts a stranger's pod, a wrong no only leaves a pod to be found by the processes that have the card open:
what is not sure is UNKNOWN, which becomes a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...model import Accelerator, Trit, any_of
from .kubelet import Allotment

# profile -> the domains of the resources that its plugins register: there, a number in an id is the number of a card.
DOMAINS: Mapping[str, tuple[str, ...]] = {
    "ascend": ("huawei.com",), "nvidia": ("nvidia.com",), "amd": ("amd.com",), "gaudi": ("habana.ai",),
    "intel_npu": ("intel.com", "npu.intel.com"), "qualcomm": ("qualcomm.com",),
}
# Attributes of a ResourceSlice's device that name one card. pcieRoot is the root complex, which many share.
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-attributes
IDENTITIES = {
    "pcibusid", "pciebusid", "pciaddr", "pciaddress", "bdf", "uuid", "parentuuid", "serial", "serialnumber", "uniqueid",
}
SERIALS = {"serial", "serialnumber"}

_ADDRESS = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{4,8}[:_-][0-9a-f]{2}[:_-][0-9a-f]{2}[._-][0-7](?![0-9a-z])"
    r"|(?<![0-9a-z:_-])[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?![0-9a-z])", re.I)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_NUMBERED = re.compile(r"(?:[A-Za-z][A-Za-z0-9.]*[-_])?(?P<number>\d{1,4})|[A-Za-z]+(?P<plain>\d{1,4})")
# A share of a card: Intel's GPU plugin counts them behind the card's number.
_SHARE = re.compile(r"[A-Za-z]+(?P<number>\d{1,4})-\d+")
_SHARED_STEMS = ("card", "accel", "npu", "gpu")
# A slice of an Ascend chip: TYPE-CORES-VIRTUAL-PHYSICAL, such as Ascend910-2c-100-1.
_VIRTUAL = re.compile(r"Ascend\w+-\d+c(?:\.\w+)*-\d+-(?P<number>\d{1,4})(?:_\d+)?")
_RANGE = re.compile(r"(\d{1,4})-(\d{1,4})")
_CDI = re.compile(r"(?P<domain>[^/=]+)/[^/=]+=(?P<device>.+)")


def has(card: Accelerator, allotment: Allotment) -> Trit:
    """Did the container get this card?

    What the plugin handed over counts before the ids that the kubelet chose: a plugin may give another card than the
    one asked for (the Ascend plugin with Volcano goes by an annotation of the pod).
    """
    own = _own_nodes(card.nodes)
    given = {path.rstrip("/") for path in allotment.nodes}
    if own & given:
        return Trit.YES
    if {_family(node) for node in own} & {_family(path) for path in given if path[-1:].isdigit()}:
        return Trit.NO      # it got other cards of the kind
    known = DOMAINS.get(card.profile or "", ())
    domain = _within(allotment.resource.partition("/")[0], known)
    shown = [value.strip() for value in allotment.visible if value.strip() not in ("", "none", "void")]
    if domain and shown and (answer := any_of([_named(card, value, known) for value in shown])) is not Trit.UNKNOWN:
        return answer
    if any(mentions(card, word) for word in allotment.words):
        return Trit.YES
    cdi = [_named(card, word, known) for word in allotment.words if known and _of_vendor(word, known)]
    if cdi and (answer := any_of(cdi)) is not Trit.UNKNOWN:
        return answer
    if any(mentions(card, id, names=True) for id in allotment.ids):
        return Trit.YES
    if known and not domain:
        return Trit.NO
    answers = [_named(card, id, known) for id in allotment.ids]
    if known:
        return any_of(answers)
    return Trit.UNKNOWN if Trit.YES in answers else Trit.NO     # a number of anything


def mentions(card: Accelerator, text: str, *, names: bool = False) -> bool:
    """Does the text name the card by its address, UUID, serial number or a node, and by no longer name that begins so?

    `names`: also by the last part of a node's path.
    """
    return any(pattern.search(text) for pattern in _patterns(card, names=names))


def offered(card: Accelerator, resources: Mapping[str, tuple[str, ...]]) -> tuple[str, str] | None:
    """Resource and id under which a plugin offers the card; None = under none that can be recognised."""
    for resource, ids in sorted(resources.items()):
        for id in ids:
            if has(card, Allotment("", resource, (id,))) is Trit.YES:
                return resource, id
    return None


def described(card: Accelerator, name: str, attributes: Mapping[str, Any], driver: str) -> bool:
    """Is a device of a ResourceSlice this card, or a part of it? An identity of its own counts before its name."""
    told = []
    for key, value in attributes.items():
        short, said = key.rpartition("/")[2].lower(), value.get("string") if isinstance(value, Mapping) else None
        if short in IDENTITIES and isinstance(said, str):
            answer = _identified(card, said)
            told.append(Trit.NO if answer is Trit.UNKNOWN and short in SERIALS and card.serial else answer)
    if Trit.YES in told:
        return True
    if Trit.NO in told:
        return False
    known = DOMAINS.get(card.profile or "", ())
    return mentions(card, name, names=True) or (_within(driver, known) and _named(card, name, known) is Trit.YES)


def _identified(card: Accelerator, text: str) -> Trit:
    """Is the card meant, by what only one card is called? UNKNOWN: there is nothing of the kind in the text."""
    if mentions(card, text, names=True):
        return Trit.YES
    if text.startswith("MIG-"):
        return Trit.UNKNOWN     # a part of some GPU, under a UUID of its own
    other = _ADDRESS.search(text) or (card.uuid and _UUID.search(card.uuid) and _UUID.search(text))
    return Trit.NO if other else Trit.UNKNOWN


def _named(card: Accelerator, text: str, domains: tuple[str, ...]) -> Trit:
    """Is the card meant, by a name or a number that its vendor's software gave?"""
    if text.rpartition("=")[2] == "all":
        return Trit.YES
    numbers = _numbers(text, domains)
    if (answer := _identified(card, text)) is not Trit.UNKNOWN or numbers is None or not card.numbers:
        return answer
    return Trit.YES if numbers & set(card.numbers) else Trit.NO


def _patterns(card: Accelerator, *, names: bool) -> Iterable[re.Pattern[str]]:
    if match := re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", card.address.lower()):
        domain, bus, slot, function = match.groups()
        # 0000:01:00.0, with a domain of eight digits as NVIDIA writes it, or as a DNS label (0000-01-00-0).
        yield re.compile(rf"(?<![0-9a-z])0{{0,4}}{domain}[:_-]{bus}[:_-]{slot}[._-]{function}(?![0-9a-z])", re.I)
        if not domain.strip("0"):
            yield re.compile(rf"(?<![0-9a-z:_-]){bus}:{slot}\.{function}(?![0-9a-z])", re.I)
    for id in (card.uuid, card.serial):
        # "0", "N/A" and a row of zeros are what firmware says that has no serial number.
        if id is not None and len(id) >= 6 and len(set(id.replace("-", ""))) > 1:
            yield re.compile(rf"(?<![0-9a-z]){re.escape(id)}(?![0-9a-z])", re.I)
    for node in _own_nodes(card.nodes):
        yield re.compile(rf"(?<![0-9A-Za-z/]){re.escape(node)}(?![0-9A-Za-z/])")
        name = node.rpartition("/")[2]
        if names and name[:1].isalpha():      # /dev/vfio/42 is called 42, which says nothing by itself
            yield re.compile(rf"(?<![0-9A-Za-z/]){re.escape(name)}(?![0-9A-Za-z/])")


def _own_nodes(nodes: tuple[str, ...]) -> set[str]:
    """The nodes of this card alone: those with a number, where any has one. /dev/vfio/vfio is everybody's."""
    return {node for node in nodes if node[-1:].isdigit()} or set(nodes)


def _family(path: str) -> str:
    return path.rstrip("0123456789")


def _within(name: str, domains: tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith(f".{domain}") for domain in domains)


def _of_vendor(word: str, domains: tuple[str, ...]) -> bool:
    """Is it a name of the Container Device Interface, VENDOR/CLASS=DEVICE, of one of the domains?"""
    match = _CDI.fullmatch(word)
    return match is not None and _within(match["domain"], domains)


def _numbers(value: str, domains: tuple[str, ...]) -> set[str] | None:
    """The numbers of cards in an id, a list of visible devices or a CDI name; None = it does not tell."""
    found: set[str] = set()
    for one in value.split(","):
        one = one.strip()
        if (match := _CDI.fullmatch(one)) and _of_vendor(one, domains):
            one = match["device"]
        if match := _RANGE.fullmatch(one):
            found |= {str(number) for number in range(int(match[1]), int(match[2]) + 1)}
        elif (match := _VIRTUAL.fullmatch(one)) or ((match := _SHARE.fullmatch(one)) and one.startswith(_SHARED_STEMS)):
            found.add(str(int(match["number"])))
        elif match := _NUMBERED.fullmatch(one):
            found.add(str(int(match["number"] or match["plain"])))
        else:
            return None
    return found
