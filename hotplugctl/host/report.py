"""A sosreport as a machine: its own files, the bus as its `lspci` text tells it, and the commands that sos ran.

What is not in it was not captured: sos copies a part of /proc and /sys, and almost nothing of the PCI bus.
"""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from ..model import Kind, Maybe, Unknown
from ..readers import layouts
from . import Ran, dump, listed
from .files import Memory, Store
from .tree import LATEST, LOG_LIMIT, TEXT_LIMIT

COMMANDS = "/sos_commands"
# Where a sosreport of any age says how its machine is called, and what a file of that name begins with.
_NAMES = ("/sos_commands/host/hostname", "/hostname", "/etc/hostname", "/proc/sys/kernel/hostname")
_TIMES = ("/sos_reports/manifest.json",)


class Report(dump.Dump):
    """What the report does not hold is Unknown (not_captured), never "not there"."""

    holder = "the report"

    def __init__(self, store: Store) -> None:
        super().__init__(_Layered(store, _bus(store)), _first(store, _NAMES) or "unknown")
        self._report = store

    def now(self) -> float:
        """When sos began, by its own manifest; the epoch where it does not say."""
        try:
            said = json.loads(self._report.read(_TIMES[0], LOG_LIMIT))
            at = datetime.fromisoformat(str(said["start_time"])).replace(tzinfo=timezone.utc).timestamp()
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return 0.0
        return at if 0 <= at < LATEST else 0.0

    def log(self, name: str) -> Maybe[str]:
        """The kernel's buffer, else the journal, else the files of the log daemon."""
        if name.startswith("/") and (text := self._text(name, LOG_LIMIT)):
            return text
        if name == "kernel":
            for choice in (layouts.KERNEL, layouts.JOURNAL):
                for path in layouts.first_of(choice, _files(self._report)):
                    text = self._text(path, LOG_LIMIT)
                    if text.strip():
                        return text
        return Unknown(f"no {name} log is in the report", Kind.NOT_CAPTURED)

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """What sos wrote down of the very same command."""
        name = "_".join(argv).replace("/", ".")
        for folder in _names(self._report, COMMANDS):
            text = self._text(f"{COMMANDS}/{folder}/{name}", TEXT_LIMIT)
            if text:
                return Ran(0, text, "")
        return Unknown(f"{' '.join(argv)} is not in the report", Kind.NOT_CAPTURED)

    def _text(self, path: str, most: int) -> str:
        try:
            return self._report.read(path, most).decode("utf-8", "backslashreplace")
        except OSError:
            return ""


class _Layered:
    """Two stores as one: what the first does not have, the second may."""

    def __init__(self, first: Store, second: Store) -> None:
        self._stores = (first, second)

    def read(self, path: str, limit: int) -> bytes:
        """As in Store."""
        return self._ask("read", path, limit)  # type: ignore[no-any-return]

    def names(self, path: str) -> list[str]:
        """As in Store, of both."""
        found: dict[str, None] = {}
        for store in self._stores:
            found.update(dict.fromkeys(_names(store, path)))
        return list(found) or self._ask("names", path)

    def link(self, path: str) -> str:
        """As in Store."""
        return self._ask("link", path)  # type: ignore[no-any-return]

    def real(self, path: str) -> str:
        """As in Store."""
        return self._ask("real", path)  # type: ignore[no-any-return]

    def _ask(self, verb: str, *words: Any) -> Any:
        for store in self._stores:
            try:
                return getattr(store, verb)(*words)
            except OSError as error:
                last = error
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
        raise last


def is_report(top: list[str]) -> bool:
    """Are these the names in a folder that sos made?"""
    return "sos_commands" in top


def _names(store: Store, path: str) -> list[str]:
    try:
        return store.names(path)
    except OSError:
        return []


def _files(store: Store) -> dict[str, str]:
    """What the choices are made among: the outputs of the plugins, and the usual log files."""
    folders = [*(f"sos_commands/{name}" for name in _names(store, COMMANDS)), "var/log"]
    return {f"/{folder}/{name}": f"{folder}/{name}" for folder in folders for name in _names(store, f"/{folder}")}


def _first(store: Store, paths: tuple[str, ...]) -> str | None:
    for path in paths:
        try:
            said = store.read(path, 256).decode("utf-8", "replace").strip()
        except OSError:
            continue
        if said and "\n" not in said:
            return said
    return None


def _bus(store: Store) -> Memory:
    """The bus as the report's listings tell it."""
    texts = []
    for path in layouts.first_of(layouts.LISTING, _files(store)):
        with suppress(OSError):
            texts.append(store.read(path, LOG_LIMIT).decode("utf-8", "replace"))
    return listed.bus(texts)
