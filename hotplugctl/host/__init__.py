"""The machine looked at: a root path, plus a way to run commands.

Live server, captured bundle and test tree answer the same questions; readers never learn which one they ask.
This package is the only place that opens files of the machine looked at or runs commands on it.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import Protocol

from ..model import Maybe, Unknown

UPTIME = "/proc/uptime"     # seconds since boot: proc(5)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended: its exit status (negative = killed by that signal) and what it printed."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class NodeStat:
    """What stat says of a device node. `kind` is c or b; `mode` the octal permission string."""

    kind: str
    major: int
    minor: int
    owner: str
    group: str
    mode: str


@dataclass(frozen=True, slots=True)
class Sought:
    """A card as processes can have it, to ask a Host who does.

    `nodes` are device nodes with the kernel's numbers (None = whatever the node says), `functions` the addresses and
    sysfs directories of its functions. `sole` is the driver that these functions alone have: what can be traced to a
    driver only is then theirs. `told` are processes (pid, via, path) that another source names; the Host says who
    they are.

    The last two ask for something else, by patterns (fnmatch): `gone` for nodes whose devices are no more, and which a
    process still has open; `controls` for files of sysfs that it has open.
    """

    nodes: tuple[tuple[str, int | None, int | None], ...] = ()
    functions: tuple[tuple[str, str], ...] = ()
    sole: str | None = None
    told: tuple[tuple[int, str, str], ...] = ()
    gone: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The question as a bundle files its answer; what is not asked leaves no trace in it."""
        asked = astuple(self)
        return json.dumps(asked if self.gone or self.controls else asked[:-2])


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A process and one way it has what was sought. Never its command line, which may hold secrets.

    `since` is when it began, in seconds since the epoch.
    """

    pid: int
    command: str
    user: str
    via: str
    path: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Who has what was sought. `unseen` says why there may be more: None = every process was looked into."""

    files: tuple[OpenFile, ...] = ()
    unseen: Unknown | None = None


class Host(Protocol):
    """What readers may ask. Paths are absolute on the machine looked at; answers are three-valued, never exceptions."""

    @property
    def name(self) -> str:
        """The machine's host name."""

    @property
    def live(self) -> bool:
        """Is it this machine, now?"""

    @property
    def redacted(self) -> bool:
        """Do answers carry aliases instead of serial numbers, UUIDs and host names?"""

    def now(self) -> float:
        """Seconds since the epoch on the machine looked at; of a capture, when it was taken."""

    def pause(self, seconds: float) -> None:
        """Let time pass on the machine looked at; a capture has none to pass."""

    def text(self, path: str) -> Maybe[str]:
        """A file's text without trailing white space; undecodable bytes as `\\xNN`."""

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """At most `limit` bytes of a file. A short answer is an answer (config space without privilege is 64 bytes)."""

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """The names in a directory, sorted."""

    def link(self, path: str) -> Maybe[str]:
        """Where a symbolic link points, as written."""

    def real(self, path: str) -> Maybe[str]:
        """The path with every link resolved, inside the machine looked at."""

    def stat(self, path: str) -> Maybe[NodeStat]:
        """A device node's numbers, owner and mode."""

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """A command's result; None = no such command; Unknown when it did not end within `deadline` seconds."""

    def log(self, name: str) -> Maybe[str]:
        """A log: `kernel` is the whole of /dev/kmsg in its record format, `journal` the kernel's lines of this boot as
        journalctl gives them in JSON, a path the end of that file."""

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """Every process that has what is sought, by a descriptor or a mapping; and whether all could be looked into."""
