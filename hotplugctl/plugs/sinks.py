"""Where events can go: the one Protocol, and the table of URL schemes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from ..errors import Exit, HotplugError
from .envelope import Event


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of events that were sent, by id.

    `delivered`: the other side acknowledged them. `refused`: it will never take them (id, why). The rest was not taken
    because of `trouble`, a sentence, and is to be sent again, not before `wait_s` seconds where the other side says so.
    """

    delivered: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    trouble: str | None = None
    wait_s: float = 0.0


class Sink(Protocol):
    """A place for events. `send` is called by one thread; `close` by any, and makes a `send` in progress return."""

    def send(self, events: Sequence[Event]) -> Outcome:
        """Send events in their order, and wait a bounded time for the acknowledgements. Never raises for the network.

        What was sent before and not acknowledged may come again: same id.
        """

    def close(self) -> None:
        """End connections."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """A sink that was asked for. `name` is its key in the spool, `shown` what people read; neither has a secret."""

    name: str
    shown: str
    sink: Sink


@dataclass(frozen=True, slots=True)
class Asked:
    """An entry of `sinks:` in the configuration, or of --sink. `source` is the CloudEvents source of this machine."""

    url: SplitResult
    source: str
    ca: str | None = None
    token_file: str | None = None
    options: Mapping[str, str] | None = None


# scheme -> (module:function of (Asked) -> Outlet, the library it needs, the extra that brings it)
SCHEMES: Mapping[str, tuple[str, str | None, str]] = {
    "https": ("webhook:open_webhook", None, ""),
    "http": ("webhook:open_webhook", None, ""),
    "kafka": ("kafka:open_kafka", "confluent_kafka", "kafka"),
}
KEYS = ("url", "ca", "token_file", "options")


def open_sinks(entries: Iterable[str | Mapping[str, Any]], source: str) -> tuple[Outlet, ...]:
    """The sinks asked for, each once. Nothing is connected yet.

    An entry is a URL or {url, ca, token_file, options}. Raises HotplugError(USAGE) for what can never work: a wrong
    URL, a scheme there is no sink for, a library that is not installed.
    """
    found: dict[str, Outlet] = {}
    for entry in entries:
        outlet = _open({"url": entry} if isinstance(entry, str) else entry, source)
        if outlet.name in found:
            outlet.sink.close()
        found.setdefault(outlet.name, outlet)
    return tuple(found.values())


def _open(entry: Mapping[str, Any], source: str) -> Outlet:
    text = str(entry.get("url", ""))
    if unknown := [key for key in entry if key not in KEYS]:
        raise wrong(text, f"a sink has no {unknown[0]!r}", f"it has {', '.join(KEYS)}")
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise wrong(text, str(error)) from error
    if url.scheme not in SCHEMES:
        raise wrong(text, f"there is no sink for {url.scheme!r}" if url.scheme else "it has no scheme")
    target, library, extra = SCHEMES[url.scheme]
    if library is not None:
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise HotplugError(
                f"{url.scheme}:// needs {library.replace('_', '-')}", why=str(error),
                hint=f"pip install 'hotplugctl[{extra}]'", exit=Exit.USAGE,
            ) from error
    module, function = target.split(":")
    opener = getattr(importlib.import_module(f".{module}", __package__), function)
    asked = Asked(url, source, entry.get("ca"), entry.get("token_file"), entry.get("options"))
    outlet: Outlet = opener(asked)
    return outlet


def wrong(url: str, why: str, hint: str = "") -> HotplugError:
    """The error for a URL that can never work; passwords in it are not repeated."""
    shown = url.split("://", 1)[0] + "://..." + url.rsplit("@", 1)[-1] if "@" in url else url
    return HotplugError(
        f"{shown!r} is not a sink", why=why, hint=hint or "https://HOST/PATH or kafka://HOST:PORT/TOPIC",
        exit=Exit.USAGE,
    )
