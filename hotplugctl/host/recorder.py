"""Capturing = looking, with a Host that writes down whatever it answers.

So the list of captured files cannot drift from what the readers read. The bundle holds the files as a tree below
`root/`, the logs below `logs/`, and in `manifest.json` every other answer: listings, links, devices, commands, and
which questions had no answer and why.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from typing import Any, TypeVar

from ..errors import Exit, HotplugError
from ..model import Kind, Maybe, Unknown
from . import UPTIME, Host, NodeStat, Ran, Seen, Sought
from .redacted import Redacted
from .tree import SCHEMA

T = TypeVar("T")

def plain_path(path: str) -> bool:
    """Is it an absolute path that stays where it says? What a hostile machine names must not write elsewhere."""
    return path.startswith("/") and not {"..", "."} & set(path.split("/")) and "\0" not in path


class Recorder:
    """A Host that remembers its answers and saves them as a bundle."""

    def __init__(self, host: Host, tool: str) -> None:
        self._host = host
        self._tool = tool
        self.name = host.name
        self.live = host.live
        self.redacted = host.redacted
        self._now = host.now()
        self._files: dict[str, bytes] = {}
        self._logs: dict[str, bytes] = {}
        self._answers: dict[str, dict[str, Any]] = {}

    def now(self) -> float:
        """The moment of capture; one for the whole bundle."""
        return self._now

    def pause(self, seconds: float) -> None:
        """As in Host."""
        self._host.pause(seconds)

    def text(self, path: str) -> Maybe[str]:
        """As in Host."""
        answer = self._host.text(path)
        if path == UPTIME:      # the other clock: the bundle's moment is that at which both were read
            self._now = self._host.now()
        if isinstance(answer, str):
            self._keep(path, answer.encode())
        else:
            self._note("data", path, answer)
        return answer

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """As in Host."""
        answer = self._host.data(path, limit)
        if isinstance(answer, bytes):
            self._keep(path, answer)
        else:
            self._note("data", path, answer)
        return answer

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As in Host."""
        return self._note("names", path, self._host.names(path), list)

    def link(self, path: str) -> Maybe[str]:
        """As in Host."""
        return self._note("link", path, self._host.link(path))

    def real(self, path: str) -> Maybe[str]:
        """As in Host."""
        return self._note("real", path, self._host.real(path))

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As in Host."""
        return self._note(
            "stat", path, self._host.stat(path), lambda s: [s.kind, s.major, s.minor, s.owner, s.group, s.mode]
        )

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As in Host."""
        answer = self._host.run(argv, deadline)
        return self._note("run", json.dumps(argv), answer, lambda r: [r.status, r.stdout, r.stderr])

    def log(self, name: str) -> Maybe[str]:
        """As in Host."""
        answer = self._host.log(name)
        if isinstance(answer, str) and (not name.startswith("/") or plain_path(name)):
            # A log goes on: a bundle holds what was judged, not what came meanwhile.
            self._logs.setdefault(name, answer.encode("utf-8", "surrogateescape"))
            self._answers.setdefault("log", {})[name] = {}
        else:
            self._note("log", name, answer)
        return answer

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As in Host."""
        return self._note("holders", sought.key, self._host.holders(sought), _seen)

    def answered(self) -> dict[str, dict[str, Any]]:
        """Everything answered so far, as JSON types: answers by verb, file and log contents as base64."""
        return {
            **{verb: dict(answers) for verb, answers in self._answers.items()},
            "files": {path: base64.b64encode(raw).decode() for path, raw in self._files.items()},
            "logs": {name: base64.b64encode(raw).decode() for name, raw in self._logs.items()},
        }

    def save(self, dest: str, extra: dict[str, Any]) -> None:
        """Write the bundle to `dest`: a directory, or one file when it ends in .tar.gz, .tgz or .tar.

        Refuses what exists. A file appears under its name only when it is complete.
        """
        manifest = {
            "schema": SCHEMA, "tool": self._tool, "host": self.name, "taken_at": self._now, "redacted": self.redacted,
            "answers": self._answers, **extra,
        }
        told = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
        content = {"manifest.json": self._again(told.encode("utf-8", "surrogateescape"))}
        content |= {
            f"root{path}": raw if path.endswith("/config") else self._again(raw)
            for path, raw in self._files.items() if plain_path(path)
        }
        content |= {f"logs/{name.lstrip('/')}": self._again(raw) for name, raw in self._logs.items()}
        if os.path.lexists(dest):
            raise HotplugError(
                f"{dest} exists", why="a capture never overwrites", hint="name another path", exit=Exit.USAGE
            )
        try:
            if dest.endswith((".tar.gz", ".tgz", ".tar")):
                _save_tar(dest, content, self._now)
            else:
                _save_directory(dest, content)
        except OSError as error:
            raise HotplugError(
                f"cannot write the bundle {dest}", why=str(error.strerror), hint="name a path that can be written",
                exit=Exit.DENIED if isinstance(error, PermissionError) else Exit.FAILED,
            ) from error

    def _again(self, raw: bytes) -> bytes:
        """What was read before a name in it was known for one."""
        if not isinstance(self._host, Redacted):
            return raw
        return self._host.again(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _keep(self, path: str, raw: bytes) -> None:
        if not plain_path(path):
            self._note("data", path, Unknown("not a path that a bundle may hold", Kind.IO))
            return
        # Asked twice with other limits, or a counter that moved on: the first whole answer is the bundle's.
        if len(raw) > len(self._files.get(path, b"")) or path not in self._files:
            self._files[path] = raw
        self._answers.setdefault("data", {})[path] = {}

    def _note(
        self, verb: str, key: str, answer: Maybe[T], form: Callable[[T], Any] = lambda value: value
    ) -> Maybe[T]:
        known = self._answers.setdefault(verb, {})
        if isinstance(answer, Unknown):
            known[key] = {"unknown": answer.why, "kind": answer.kind.value}
        else:
            known[key] = {"absent": True} if answer is None else form(answer)
        return answer


def _seen(seen: Seen) -> dict[str, Any]:
    unseen = {"unknown": seen.unseen.why, "kind": seen.unseen.kind.value} if seen.unseen is not None else None
    return {"files": [list(astuple(file)) for file in seen.files], "unseen": unseen}


def _save_tar(dest: str, content: dict[str, bytes], mtime: float) -> None:
    partial = f"{dest}.partial"
    # 0600: it describes a machine; whoever captured it decides who may read it.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w" if dest.endswith(".tar") else "w:gz") as tar:
                for name, raw in content.items():
                    member = tarfile.TarInfo(name)
                    member.size, member.mtime, member.mode = len(raw), int(mtime), 0o600
                    tar.addfile(member, io.BytesIO(raw))
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, dest)  # refuses what came to exist meanwhile
    finally:
        with suppress(OSError):
            os.unlink(partial)


def _save_directory(dest: str, content: dict[str, bytes]) -> None:
    os.mkdir(dest, 0o700)
    # The manifest last: a directory without one is not a bundle, so a torn capture cannot pass for a whole one.
    for name, raw in sorted(content.items(), key=lambda item: item[0] == "manifest.json"):
        path = os.path.join(dest, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "xb") as file:
            file.write(raw)
