"""Any root that is not this machine: a test tree, an unpacked archive, a captured bundle."""

from __future__ import annotations

import errno
import json
from typing import Any

from ..errors import Exit, HotplugError
from ..model import Kind, Maybe, Unknown
from . import NodeStat, OpenFile, Ran, Seen, Sought
from .files import Store, answer, decode

TEXT_LIMIT = 1 << 20
LOG_LIMIT = 256 << 20
SCHEMA = "hotplugctl.bundle/1"
LATEST = 253_402_300_800      # the year 10000, where ISO 8601 as we write it ends


class Tree:
    """A folder that looks like a machine. What is not in it is not there; commands and logs were not captured.

    A kernel log in /dev/kmsg's record format may lie at `/kmsg`.
    """

    live = False
    redacted = False

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self.name = name

    def now(self) -> float:
        """A tree has no time of its own: the epoch."""
        return 0.0

    def pause(self, seconds: float) -> None:
        """Nothing passes in a tree."""

    def text(self, path: str) -> Maybe[str]:
        """As in Host."""
        raw = self.data(path, TEXT_LIMIT)
        return decode(raw) if isinstance(raw, bytes) else raw

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """As in Host."""
        try:
            return self._store.read(path, limit)
        except OSError as error:
            return answer(error)

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As in Host."""
        try:
            return tuple(sorted(self._store.names(path)))
        except OSError as error:
            return answer(error)

    def link(self, path: str) -> Maybe[str]:
        """As in Host; None for what is no link."""
        try:
            return self._store.link(path)
        except OSError as error:
            return None if error.errno == errno.EINVAL else answer(error)

    def real(self, path: str) -> Maybe[str]:
        """As in Host."""
        try:
            return self._store.real(path)
        except OSError as error:
            return answer(error)

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As in Host: a line `c MAJOR MINOR OWNER GROUP MODE` in the file stands for the node."""
        line = self.text(path)
        if not isinstance(line, str):
            return line
        parts = line.split()
        if len(parts) != 6 or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        return NodeStat(parts[0], int(parts[1]), int(parts[2]), *parts[3:])

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As in Host; never runs anything."""
        return Unknown(f"{argv[0]} was not captured", Kind.NOT_CAPTURED)

    def log(self, name: str) -> Maybe[str]:
        """As in Host."""
        raw = self.data(name if name.startswith("/") else f"/{'kmsg' if name == 'kernel' else name}", LOG_LIMIT)
        return Unknown(f"no {name} log in this tree", Kind.NOT_CAPTURED) if raw is None else (
            decode(raw) if isinstance(raw, bytes) else raw
        )

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As in Host."""
        return Unknown("processes were not captured", Kind.NOT_CAPTURED)


class Bundle(Tree):
    """What a Recorder wrote down: every answer as it was given, the unanswered questions included.

    A question that was not asked at capture time is Unknown (not_captured), never "not there".
    """

    def __init__(self, store: Store, origin: str) -> None:
        try:
            manifest = json.loads(store.read("/manifest.json", LOG_LIMIT))
            if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
                raise ValueError(f"its manifest is not {SCHEMA}")
            super().__init__(store, str(manifest["host"]))
            self.manifest: dict[str, Any] = manifest
            self.redacted = bool(manifest["redacted"])
            self._now = float(manifest["taken_at"])
            if not 0 <= self._now < LATEST:
                raise ValueError("it was taken at no possible time")
            self._answers: dict[str, dict[str, Any]] = {
                verb: dict(manifest["answers"].get(verb, {}))
                for verb in ("data", "names", "link", "real", "stat", "run", "log", "holders")
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise HotplugError(
                f"cannot use the bundle {origin}", why=f"its manifest cannot be read ({error})",
                hint="have it captured or sent again: hotplugctl diagnose --capture PATH", exit=Exit.UNKNOWN,
            ) from error

    def now(self) -> float:
        """When it was captured, seconds since the epoch."""
        return self._now

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """As in Host."""
        known = self._answers["data"].get(path)
        if known is None:
            return _not_captured(path)
        if known != {}:
            return _stored(known, path)
        try:
            return self._store.read(f"/root{path}", limit)
        except OSError as error:
            return Unknown(f"{path}: damaged bundle ({error.strerror})", Kind.IO)

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As in Host."""
        known = self._answers["names"].get(path)
        if not isinstance(known, list):
            return _stored(known, path)
        return tuple(name for name in map(str, known) if name not in ("", ".", "..") and "/" not in name)

    def link(self, path: str) -> Maybe[str]:
        """As in Host."""
        known = self._answers["link"].get(path)
        return known if isinstance(known, str) else _stored(known, path)

    def real(self, path: str) -> Maybe[str]:
        """As in Host."""
        known = self._answers["real"].get(path)
        return known if isinstance(known, str) else _stored(known, path)

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As in Host."""
        known = self._answers["stat"].get(path)
        if not isinstance(known, list):
            return _stored(known, path)
        try:
            kind, major, minor, owner, group, mode = known
            return NodeStat(str(kind), int(major), int(minor), str(owner), str(group), f"{int(str(mode), 8):04o}")
        except (ValueError, TypeError, OverflowError):
            return Unknown(f"{path}: damaged bundle", Kind.IO)

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As in Host."""
        known = self._answers["run"].get(json.dumps(argv))
        if not isinstance(known, list):
            return _stored(known, argv[0])
        try:
            status, stdout, stderr = known
            return Ran(int(status), str(stdout), str(stderr))
        except (ValueError, TypeError, OverflowError):
            return Unknown(f"{argv[0]}: damaged bundle", Kind.IO)

    def log(self, name: str) -> Maybe[str]:
        """As in Host."""
        known = self._answers["log"].get(name)
        if known != {}:
            return _stored(known, f"the {name} log")
        try:
            return self._store.read(f"/logs/{name}", LOG_LIMIT).decode(errors="backslashreplace")
        except OSError as error:
            return Unknown(f"the {name} log: damaged bundle ({error.strerror})", Kind.IO)

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As in Host."""
        known = self._answers["holders"].get(sought.key)
        if not isinstance(known, dict) or "files" not in known:
            return _stored(known, "who holds the card")
        try:
            unseen = _stored(known["unseen"], "") if known["unseen"] is not None else None
            return Seen(tuple(_open_file(row) for row in known["files"]), unseen)
        except (ValueError, TypeError, KeyError, OverflowError):
            return Unknown("who holds the card: damaged bundle", Kind.IO)


def _open_file(row: list[Any]) -> OpenFile:
    pid, *words, since = row
    command, user, via, path = map(str, words)
    return OpenFile(int(pid), command, user, via, path, None if since is None else float(since))


def _not_captured(what: str) -> Unknown:
    return Unknown(f"{what} was not captured", Kind.NOT_CAPTURED)


def _stored(known: Any, what: str = "") -> Unknown | None:
    """The recorded `absent` or `unknown` of a question, or that it was never asked."""
    if isinstance(known, dict) and "unknown" in known:
        kinds = {kind.value: kind for kind in Kind}
        return Unknown(str(known["unknown"]), kinds.get(str(known.get("kind")), Kind.IO))
    return None if known == {"absent": True} else _not_captured(what)
