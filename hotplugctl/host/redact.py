"""Serial numbers, UUIDs, host names and addresses of people's networks as stable aliases.

One function for every text that leaves the machine, used at the Host's door, so that a captured bundle and a live
`--redact` say the same. An alias is a keyed hash (key: the machine id, as machine-id(5) recommends for derived ids):
the same card has the same alias in every bundle of one machine, and nobody without the key can test a guess.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable
from functools import partial

from ..model import Maybe, Unknown
from ..readers.capabilities import without_serial
from . import Host, NodeStat, OpenFile, Ran

# Attributes whose whole value identifies one card or machine.
IDENTIFYING = {
    "serial_number": "serial", "serial": "serial", "product_serial": "serial", "board_serial": "serial",
    "chassis_serial": "serial", "tt_serial": "serial", "unique_id": "serial", "uuid": "uuid", "product_uuid": "uuid",
    "machine-id": "machine", "boot_id": "boot", "hostname": "host", "nodename": "host", "address": "mac",
}
_ALIAS = re.compile(r"(?:serial|uuid|machine|boot|host|mac|ip|user)-[0-9a-f]{8}")
_HEX2 = "[0-9a-fA-F]{2}"
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_DSN = re.compile(rf"\b{_HEX2}(?:-{_HEX2}){{7}}\b")
_MAC = re.compile(rf"(?<![0-9a-fA-F:]){_HEX2}(?::{_HEX2}){{5}}(?![0-9a-fA-F:])")
_SERIAL = re.compile(r"(?i)\b((?:serial(?:[ _-]?(?:number|num|no))?|s/n)\s*[:=#]\s*[\"']?)([A-Za-z0-9][\w./-]{3,})")
_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]*\d)")
_VERSIONED = re.compile(r"(?i)(?:ver(?:sion)?|firmware|fw|release|driver)\W{0,3}$|v$")
_IPV6 = re.compile(
    r"(?<![0-9a-fA-F:.])(?:[23][0-9a-fA-F]{3}|f[cdCD][0-9a-fA-F]{2}|fe80):(?:[0-9a-fA-F]{0,4}:){1,6}[0-9a-fA-F]{1,4}"
    r"(?![0-9a-fA-F:.])"
)
_HOME = re.compile(r"(/home/)([^/\s:'\"]+)")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_SECRET = re.compile(r"(?i)((?:password|passwd|secret|token|api[_-]?key)\s*[:=]\s*[\"']?)([^\s\"',;]+)")
# Names that say nothing of anybody, or that are ordinary words of a log.
_PLAIN_HOSTS = {
    "localhost", "localhost.localdomain", "(none)", "linux", "host", "node", "server", "debian", "ubuntu", "vm",
}
_PLAIN_USERS = {"root", "daemon", "nobody", "HwHiAiUser"}


class Redactor:
    """Replaces what identifies, by aliases that are stable for one `key`."""

    def __init__(self, key: bytes, host_names: tuple[str, ...] = ()) -> None:
        self._key = key
        names = sorted({n for n in host_names if len(n) > 1 and n.lower() not in _PLAIN_HOSTS}, key=len, reverse=True)
        self._hosts = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])") if names else None
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
        swap: Callable[[str], Callable[[re.Match[str]], str]] = lambda kind: lambda m: self.alias(kind, m[0])  # noqa: E731
        text = _SECRET.sub(lambda m: m[1] + "REDACTED", text)
        text = _SERIAL.sub(lambda m: m[1] + self.alias("serial", m[2]), text)
        text = _UUID.sub(swap("uuid"), text)
        text = _DSN.sub(swap("serial"), text)
        text = _MAC.sub(swap("mac"), text)
        text = _IPV4.sub(partial(self._ipv4, text), text)
        text = _IPV6.sub(swap("ip"), text)
        text = _EMAIL.sub(swap("user"), text)
        text = _HOME.sub(lambda m: m[1] + self.user(m[2]), text)
        return self._hosts.sub(swap("host"), text) if self._hosts else text

    def attribute(self, name: str, value: str) -> str:
        """A file's whole content, by the file's name: an identifying one is remembered and found in later texts too."""
        kind = IDENTIFYING.get(name)
        if kind is None or (kind == "mac" and not _MAC.fullmatch(value)):
            return self.text(value)
        alias = self.alias(kind, value)
        if len(value) >= 6:  # a shorter one would hit innocent text
            self._known[value] = alias
        return alias

    def user(self, name: str) -> str:
        """A person's login name; system accounts stay."""
        return name if name in _PLAIN_USERS else self.alias("user", name)

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
    """The machine's own redactor: its machine id is the key, else its boot id, else one for this run alone."""
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        key = host.text(path)
        if isinstance(key, str) and key:
            return Redactor(key.encode(), (host.name, host.name.split(".")[0]))
    return redactor_for_texts((host.name, host.name.split(".")[0]))


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

    def holders(self, nodes: tuple[str, ...]) -> Maybe[tuple[OpenFile, ...]]:
        """As the Host's, people's login names as aliases."""
        answer = self._host.holders(nodes)
        if answer is None or isinstance(answer, Unknown):
            return answer
        return tuple(OpenFile(h.pid, h.command, self._redactor.user(h.user), h.via, h.path) for h in answer)
