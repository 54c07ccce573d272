"""Serial numbers, UUIDs, host names and addresses of people's networks as stable aliases.

One function for every text that leaves the machine, used at the Host's door, so that a captured bundle and a live
`--redact` say the same. An alias is a keyed hash (key: the machine id, as machine-id(5) recommends for derived ids):
the same card has the same alias in every bundle of one machine, and nobody without the key can test a guess.
"""

from __future__ import annotations

import hmac
import os
import re
from dataclasses import replace
from functools import partial

from ..model import Maybe, Unknown
from ..readers.capabilities import without_serial
from . import Host, NodeStat, Ran, Seen, Sought

# Attributes whose whole value identifies one card or machine.
IDENTIFYING = {
    "serial_number": "serial", "serial": "serial", "product_serial": "serial", "board_serial": "serial",
    "chassis_serial": "serial", "tt_serial": "serial", "unique_id": "serial", "uuid": "uuid", "product_uuid": "uuid",
    "machine-id": "machine", "boot_id": "boot", "hostname": "host", "nodename": "host", "address": "mac",
}
_ALIAS = re.compile(r"(?:serial|uuid|machine|boot|host|mac|ip|user|secret)-[0-9a-f]{8}")
_H = "[0-9a-fA-F]"
# What identifies, by what it is: kind -> pattern. A group named `keep` stays, what follows it becomes the alias.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("secret", re.compile(
        r"(?i)(?P<keep>\b(?:authorization\s*:\s*(?:bearer|basic)|bearer)\s+)[\w.~+/=-]{6,}")),
    ("secret", re.compile(
        r"(?i)(?P<keep>(?:\b|_)(?:password|passwd|passphrase|pass|psk|secret|secret_access_key|secret_key|api[_-]?key|"
        r"access[_-]?token|auth[_-]?token)\b[\"']?(?:\s*[:=]\s*|\s+(?=\S*\d))[\"']?)(?!0x)[^\s\"',;]{3,}")),
    ("secret", re.compile(r"(?i)(?P<keep>\btoken\b[\"']?\s*[:= ]\s*[\"']?)(?!0x)(?=\S*[A-Za-z])(?=\S*\d)[\w.-]{8,}|"
                          r"(?P<keep2>\btoken\s*=\s*)[^\s\"',;]{3,}")),
    ("secret", re.compile(r"(?P<keep>)\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{8,}|xox[bap]-[\w-]{8,})")),
    ("secret", re.compile(r"(?P<keep>[a-z][a-z0-9+.-]*://)[^/\s:@]+:[^/\s@]+(?=@)")),
    ("serial", re.compile(
        r"(?i)(?P<keep>(?:\bserial(?:[ ._-]?(?:number|num|no))?|\bs/n|(?<![a-z0-9])sn)\.?[\"']?\s*[:=#]?\s*[\"']?)"
        r"(?=[A-Z0-9-]*\d)(?!\d{1,5}\b)[A-Z0-9][A-Z0-9-]{5,}(?![a-z])")),
    ("uuid", re.compile(rf"\b{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}\b")),
    ("uuid", re.compile(rf"(?<![\w.-])(?=[0-9a-f]*[a-f])(?=[a-f]*[0-9]){_H}{{32}}(?![\w-])")),
    ("serial", re.compile(rf"\b{_H}{{2}}(?:-{_H}{{2}}){{7}}\b")),
    ("serial", re.compile(rf"(?i)(?P<keep>\b(?:naa|eui|wwn|nguid)[.:= ](?:0x)?){_H}{{16,32}}\b")),
    ("serial", re.compile(r"\biqn\.\d{4}-\d\d\.[\w.:-]+")),
    ("mac", re.compile(rf"(?<!{_H})(?<!{_H}{_H}[:-])(?:{_H}{{2}}-){{5,6}}{_H}{{2}}(?![:-]?{_H})")),
    ("mac", re.compile(rf"(?<!{_H})(?<!{_H}{_H}:)(?:{_H}{{2}}:){{5}}{_H}{{2}}(?:(?::{_H}{{2}}){{2}})?(?!:?{_H})")),
    ("mac", re.compile(rf"(?<![\w.]){_H}{{4}}\.{_H}{{4}}\.{_H}{{4}}(?![\w.])")),
    ("ip", re.compile(
        rf"(?<![0-9a-fA-F:.])(?:(?:{_H}{{1,4}}:){{7}}{_H}{{1,4}}|"
        rf"(?:[23]{_H}{{3}}|f[cdCD]{_H}{{2}}|fe80):(?:{_H}{{1,4}}:){{0,5}}:(?:{_H}{{1,4}}:){{0,5}}{_H}{{1,4}})(?![0-9a-fA-F:.])")),
    ("user", re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")),
)
_LINK_ADDRESS = re.compile(rf"{_H}{{2}}(?::{_H}{{2}}){{5}}")
_USERS = re.compile(
    r"(?P<keep>/home/|/Users/|\bsudo:\s+|session (?:opened|closed) for user |\b[Uu]ser[ =]|\bfor user )"
    r"(?P<name>[A-Za-z_][\w.-]*)"
)
_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]*\d)")
# Four numbers after one of these words are a version.
_VERSIONED = re.compile(
    r"(?i)(?:ver(?:sion)?|firmware|fw|release|driver|cann|bios|toolkit|runtime|kernel|build|rocm|cuda|nccl)\W{0,3}$|v$")
# Names that say nothing of anybody, or that are ordinary words of a log.
_PLAIN_HOSTS = {
    "", "localhost", "localhost.localdomain", "(none)", "linux", "host", "node", "server", "debian", "ubuntu", "vm",
}
_PLAIN_USERS = {"root", "daemon", "nobody", "HwHiAiUser", "space", "mode", "id"}     # and words that follow "user"
# Attributes of a function that may hold its serial; read before anything else, so that no text escapes.
_PRIMED = ("serial_number", "serial", "unique_id", "tt_serial", "uuid")


class Redactor:
    """Replaces what identifies, by aliases that are stable for one `key`."""

    def __init__(self, key: bytes, host_names: tuple[str, ...] = ()) -> None:
        self._key = key
        names = sorted({n for n in host_names if len(n) > 1 and n.lower() not in _PLAIN_HOSTS}, key=len, reverse=True)
        one_of = "|".join(map(re.escape, names))
        # With its domain, in any case, also where it is a part between dashes.
        self._hosts = re.compile(rf"(?i)(?<![\w.])(?:{one_of})(?:\.[\w-]+)*(?!\w)") if names else None
        self._known: dict[str, str] = {}

    def alias(self, kind: str, value: str) -> str:
        """`serial-3f2a91c0` for a serial; an alias stays as it is."""
        if not value or _ALIAS.fullmatch(value):
            return value
        digest = hmac.new(self._key, f"{kind}:{value.lower()}".encode(), "sha256").hexdigest()
        return f"{kind}-{digest[:8]}"

    def text(self, text: str) -> str:
        """The text with everything identifying replaced; the rest byte for byte."""
        for value, alias in self._known.items():
            text = text.replace(value, alias)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(partial(self._swap, kind), text)
        text = _IPV4.sub(partial(self._ipv4, text), text)
        text = _USERS.sub(lambda m: m["keep"] + self.user(m["name"]), text)
        return self._hosts.sub(lambda m: self.alias("host", m[0]), text) if self._hosts else text

    def _swap(self, kind: str, match: re.Match[str]) -> str:
        groups = match.groupdict()
        keep = groups.get("keep") or groups.get("keep2") or ""
        return keep + self.alias(kind, match[0][len(keep):])

    def attribute(self, name: str, value: str) -> str:
        """A file's whole content, by the file's name: an identifying one is remembered and found in later texts too."""
        kind = IDENTIFYING.get(name)
        if kind is None or (kind == "mac" and not _LINK_ADDRESS.fullmatch(value)):
            return self.text(value)
        self.knows(kind, value)
        return self.alias(kind, value)

    def user(self, name: str) -> str:
        """A person's login name; system accounts stay."""
        return name if name in _PLAIN_USERS else self.alias("user", name)

    def knows(self, kind: str, value: str) -> None:
        """Remember an identifying value, so that it is found in every text to come."""
        if len(value) >= 6:  # a shorter one would hit innocent text
            self._known[value] = self.alias(kind, value)

    def host(self, name: str) -> str:
        """The machine's own name, always an alias."""
        return self.alias("host", name)

    def _ipv4(self, text: str, match: re.Match[str]) -> str:
        # Four numbers after "version" are a version; loopback and the unspecified address identify nobody.
        before = text[max(0, match.start() - 12) : match.start()]
        if _VERSIONED.search(before) or match[0].startswith(("127.", "0.")):
            return match[0]
        return self.alias("ip", match[0])


def redactor_for(host: Host) -> Redactor:
    """The machine's own redactor: its machine id is the key, else its boot id, else one for this run alone.

    Serials and names are read first of all: a log that is read before a card would tell what the card's alias hides.
    """
    said = host.text("/etc/hostname")
    whole = (host.name, *((said,) if isinstance(said, str) else ()))
    names = (*whole, *(name.split(".")[0] for name in whole))
    keys = (host.text(path) for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"))
    key = next((key for key in keys if isinstance(key, str) and key), None)
    redactor = Redactor(key.encode(), names) if key is not None else redactor_for_texts(names)
    if isinstance(key, str):
        redactor.knows("machine", key)
    devices = host.names("/sys/bus/pci/devices")
    for device in devices if isinstance(devices, tuple) else ():
        for attribute in _PRIMED:
            value = host.text(f"/sys/bus/pci/devices/{device}/{attribute}")
            if isinstance(value, str) and value:
                redactor.knows(IDENTIFYING[attribute], value)
    for attribute in ("product_serial", "board_serial", "chassis_serial", "product_uuid"):
        value = host.text(f"/sys/class/dmi/id/{attribute}")
        if isinstance(value, str) and value:
            redactor.knows(IDENTIFYING[attribute], value)
    return redactor


def redactor_for_texts(host_names: tuple[str, ...]) -> Redactor:
    """A redactor whose aliases hold for this run alone."""
    return Redactor(os.urandom(16), host_names)


class Redacted:
    """A Host whose answers carry aliases. The one place where redaction happens."""

    def __init__(self, host: Host, redactor: Redactor) -> None:
        self._host = host
        self._redactor = redactor
        self.name = redactor.host(host.name)
        self.live = host.live
        self.redacted = True

    def now(self) -> float:
        """Seconds since the epoch on the machine looked at."""
        return self._host.now()

    def pause(self, seconds: float) -> None:
        """As in Host."""
        self._host.pause(seconds)

    def text(self, path: str) -> Maybe[str]:
        """As the Host's, redacted."""
        answer = self._host.text(path)
        return self._redactor.attribute(path.rsplit("/", 1)[1], answer) if isinstance(answer, str) else answer

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """Config space comes with the serial number zeroed; every other file as redacted text."""
        answer = self._host.data(path, limit)
        if not isinstance(answer, bytes):
            return answer
        if path.endswith("/config"):
            return without_serial(answer)
        return self._redactor.text(answer.decode("latin-1")).encode("latin-1")

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As the Host's."""
        return self._host.names(path)

    def link(self, path: str) -> Maybe[str]:
        """As the Host's."""
        return self._host.link(path)

    def real(self, path: str) -> Maybe[str]:
        """As the Host's."""
        return self._host.real(path)

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As the Host's; owner and group are roles, not people, on a device node."""
        return self._host.stat(path)

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As the Host's, output redacted."""
        answer = self._host.run(argv, deadline)
        if not isinstance(answer, Ran):
            return answer
        return Ran(answer.status, self._redactor.text(answer.stdout), self._redactor.text(answer.stderr))

    def log(self, name: str) -> Maybe[str]:
        """As the Host's, redacted."""
        answer = self._host.log(name)
        return answer if answer is None or isinstance(answer, Unknown) else self._redactor.text(answer)

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As the Host's, people's login names as aliases."""
        answer = self._host.holders(sought)
        if not isinstance(answer, Seen):
            return answer
        return Seen(tuple(replace(file, user=self._redactor.user(file.user)) for file in answer.files), answer.unseen)
