"""Serial numbers, UUIDs, names of machines and people, addresses of their networks and secrets as stable aliases.

One function for every text that leaves the machine, used at the Host's door (redacted.py), so that a captured bundle
and a live `--redact` say the same. An alias is a keyed hash (key: the machine id, as machine-id(5) recommends for
derived ids): the same card has the same alias in every bundle of one machine, and nobody without the key can test a
guess.
"""

from __future__ import annotations

import hmac
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import Host
from .identifying import (
    ALIAS,
    CONTAINER,
    DOMAIN,
    EMAIL,
    ENDINGS,
    IDENTIFYING,
    IPV4,
    KEY_BLOCK,
    KEY_LINE,
    OF_RECORDS,
    ORDINARY,
    OUTSIDE,
    PATTERNS,
    PLAIN_HOSTS,
    POD_UID,
    PUBLIC,
    VERSIONED,
    canonical,
    plain,
)

_DEVICES = "/sys/bus/pci/devices"
_LINK_ADDRESS = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
# Attributes of a function that may hold its serial; read before anything else, so that no text escapes.
_PRIMED = ("serial_number", "serial", "unique_id", "tt_serial", "uuid")
_OF_THE_BOARD = (
    "product_serial", "board_serial", "chassis_serial", "product_uuid", "chassis_asset_tag", "board_asset_tag",
)
# What was found by its surroundings once and is then hidden wherever it stands; other kinds show by themselves.
_LEARNT = frozenset(("serial", "secret"))
PIECE = 2000        # characters, to the end of the line
FIRST_PERSON, LAST_PERSON = 1000, 65533     # UIDs of people: UID_MIN of login.defs(5), below `nobody`


class Redactor:
    """Replaces what identifies, by aliases that are stable for one `key`.

    It learns: a serial number that a text calls one, or somebody's login name, is then hidden wherever it stands.
    """

    def __init__(self, key: bytes, host_names: tuple[str, ...] = ()) -> None:
        self._key = key
        names = sorted({n for n in host_names if len(n) > 1 and n.lower() not in PLAIN_HOSTS}, key=len, reverse=True)
        one_of = "|".join(map(re.escape, names))
        # With its domain, in any case, also where it is a part between dashes.
        self._hosts = re.compile(rf"(?i)(?<![\w.])(?:{one_of})(?:\.[\w-]+)*(?!\w)") if names else None
        self._known: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._word: re.Pattern[str] | None = None
        self._issued: set[str] = set()

    def alias(self, kind: str, value: str) -> str:
        """`serial-3f2a91c0` for a serial; an alias stays as it is, and so does a word that says nothing."""
        if not value or ALIAS.fullmatch(value) or value in self._issued or plain(kind, value):
            return value
        return f"{kind}-{self._digest(kind, value)[:8]}"

    def _digest(self, kind: str, value: str) -> str:
        return hmac.new(self._key, f"{kind}:{canonical(kind, value)}".encode("utf-8", "surrogatepass"),
                        "sha256").hexdigest()

    def text(self, text: str) -> str:
        """The text with everything identifying replaced; the rest byte for byte."""
        if "PRIVATE KEY" in text:
            text = KEY_BLOCK.sub(lambda block: KEY_LINE.sub(self._of("secret"), block[0]), text)
        return "".join(map(self._piece, _pieces(text)))

    def _piece(self, text: str) -> str:
        text = self.again(text)
        text = POD_UID.sub(self._like_a_uid, CONTAINER.sub(self._like_an_id, text))
        if "@" in text:
            text = EMAIL.sub(lambda m: f"{self.alias('user', m['name'])}@{self.alias('host', m['domain'])}", text)
        folded = text.casefold()
        for kind, hints, pattern in PATTERNS:
            if not hints or any(hint in folded for hint in hints):
                text = pattern.sub(partial(self._swap, kind), text)
        text = IPV4.sub(partial(self._ipv4, text), text)
        if any(f".{ending}" in folded for ending in ENDINGS):
            text = DOMAIN.sub(self._domain, text)
        text = self.again(text)
        return self._hosts.sub(lambda m: self.alias("host", m[0]), text) if self._hosts else text

    def again(self, text: str) -> str:
        """A text that was redacted before, by what has been learnt since."""
        for value, alias in self._known.items():
            text = text.replace(value, alias)
        return self._word.sub(lambda m: self._words[m[0]], text) if self._word is not None else text

    def _domain(self, match: re.Match[str]) -> str:
        """A machine's name; `vendor.example/thing` outside a URL is the name of a resource or image."""
        text, name = match.string, match["name"]
        resource = text[match.end():match.end() + 1] == "/" and not text[:match.start()].endswith("//")
        return name if PUBLIC.search(name) or (resource and OUTSIDE.search(name)) else self.alias("host", name)

    def _of(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self.alias(kind, match[0])

    def _swap(self, kind: str, match: re.Match[str]) -> str:
        name = next((name for name, value in match.groupdict().items() if value is not None), None)
        start, end = (at - match.start() for at in match.span(name or 0))
        value = match[0][start:end]
        alias = self.alias(kind, value)
        if alias != value and kind in _LEARNT and any(c.isdigit() for c in value) and len(value) >= 8:
            self.knows(kind, value)
        if alias != value and kind == "user":
            self.person(value)
        return f"{match[0][:start]}{alias}{match[0][end:]}"

    def _like_a_uid(self, match: re.Match[str]) -> str:
        """A pod's uid in a control group stays one in form: readers tell a pod by it."""
        raw = match[0]
        if raw in self._issued:
            return raw
        hexed, mark = self._digest("uuid", raw), match["mark"]
        alias = mark.join((hexed[:8], hexed[8:12], hexed[12:16], hexed[16:20], hexed[20:32]))
        self._issued.add(alias)
        return alias

    def _like_an_id(self, match: re.Match[str]) -> str:
        if match[0] in self._issued:
            return match[0]
        alias = self._digest("container", match[0])
        self._issued.add(alias)
        return alias

    def attribute(self, name: str, value: str) -> str:
        """A file's whole content, by the file's name: an identifying one is remembered and found in later texts too."""
        kind = IDENTIFYING.get(name)
        if kind is None or (kind == "mac" and not _LINK_ADDRESS.fullmatch(value)):
            return self.text(value)
        self.knows(kind, value)
        return self.alias(kind, value)

    def record(self, text: str) -> str:
        """A record of our own: by its keys where they tell, and what is no JSON as any text."""
        try:
            return json.dumps(self._value("", json.loads(text)))
        except (ValueError, RecursionError):
            return self.text(text)

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(name): self._value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(key, inner) for inner in value]
        if not isinstance(value, str):
            return value
        kind = OF_RECORDS.get(key)
        return self.text(value) if kind is None else self.alias(kind, value)

    def user(self, name: str) -> str:
        """A person's login name; system accounts stay."""
        return self.alias("user", name)

    def person(self, name: str) -> None:
        """Remember somebody's login name, so that it is found as a word of every text to come."""
        if len(name) >= 4 and name.casefold() not in ORDINARY and not plain("user", name) and name not in self._words:
            self._words[name] = self.alias("user", name)
            one_of = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True)))
            self._word = re.compile(rf"(?<![\w])(?:{one_of})(?![\w])")

    def knows(self, kind: str, value: str) -> None:
        """Remember an identifying value, so that it is found in every text to come."""
        if len(value) >= 6 and not ALIAS.fullmatch(value):  # a shorter one would hit innocent text
            self._known[value] = self.alias(kind, value)

    def host(self, name: str) -> str:
        """The machine's own name, always an alias."""
        return name if ALIAS.fullmatch(name) else f"host-{self._digest('host', name)[:8]}"

    def _ipv4(self, text: str, match: re.Match[str]) -> str:
        # Four numbers after "version" are a version; loopback and the unspecified address identify nobody.
        before = text[max(0, match.start() - 12) : match.start()]
        if VERSIONED.search(before) or match[0].startswith(("127.", "0.")):
            return match[0]
        return self.alias("ip", match[0])


def _pieces(text: str) -> Iterator[str]:
    """Some lines at a time, since most patterns are not worth trying on most lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


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
    devices = host.names(_DEVICES)
    for device in devices if isinstance(devices, tuple) else ():
        # As the readers ask for it: a bundle knows the answers to their questions alone.
        link = host.link(f"{_DEVICES}/{device}")
        folder = posixpath.normpath(f"{_DEVICES}/{link}") if isinstance(link, str) else f"{_DEVICES}/{device}"
        for attribute in _PRIMED:
            _known(redactor, host, folder, attribute)
    for attribute in _OF_THE_BOARD:
        _known(redactor, host, "/sys/class/dmi/id", attribute)
    for name in _people(host):
        redactor.person(name)
    return redactor


def _known(redactor: Redactor, host: Host, folder: str, attribute: str) -> None:
    value = host.text(f"{folder}/{attribute}")
    if isinstance(value, str) and value:
        redactor.knows(IDENTIFYING[attribute], value)


def _people(host: Host) -> list[str]:
    """Who has an account or a home directory here."""
    said, homes = host.text("/etc/passwd"), host.names("/home")
    rows = [line.split(":") for line in said.splitlines()] if isinstance(said, str) else []
    numbered = [(row[0], int(row[2])) for row in rows if len(row) > 3 and row[2].isdigit() and len(row[2]) < 11]
    accounts = [name for name, uid in numbered if FIRST_PERSON <= uid <= LAST_PERSON]
    return [*accounts, *(homes if isinstance(homes, tuple) else ())]


def redactor_for_texts(host_names: tuple[str, ...]) -> Redactor:
    """A redactor whose aliases hold for this run alone."""
    return Redactor(os.urandom(16), host_names)
