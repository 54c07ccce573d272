"""A Host whose answers carry aliases: the one place where redaction happens.

Names of files identify too (`/home/alice`, `/var/log/pods/NAMESPACE_POD_UID`). A listing gives their aliases, and a
question that names an alias is asked of the file that it stands for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ..model import Maybe, Unknown
from ..readers.capabilities import without_serial
from . import Host, NodeStat, Ran, Seen, Sought
from .identifying import IDENTIFYING
from .redact import Redactor

T = TypeVar("T")
OWN_RECORDS = ("/var/lib/hotplugctl/", "/run/hotplugctl/")
HOMES = ("/home", "/Users")
PODS = "/var/log/pods"


class Redacted:
    """A Host whose answers carry aliases."""

    def __init__(self, host: Host, redactor: Redactor) -> None:
        self._host = host
        self._redactor = self.redactor = redactor
        self._shown: dict[tuple[str, str], str] = {}
        self._real: dict[str, str] = {}
        self.name = redactor.host(host.name)
        self.live = host.live
        self.redacted = True

    def now(self) -> float:
        """Seconds since the epoch on the machine looked at."""
        return self._host.now()

    def pause(self, seconds: float) -> None:
        """As in Host."""
        self._host.pause(seconds)

    def again(self, text: str) -> str:
        """A text that was redacted before, by what has been learnt since."""
        return self._redactor.again(text)

    def text(self, path: str) -> Maybe[str]:
        """As the Host's, redacted."""
        answer = self._host.text(self._asked(path))
        if not isinstance(answer, str):
            return self._said(answer)
        if path.startswith(OWN_RECORDS):
            return self._redactor.record(answer)
        return self._redactor.attribute(path.rsplit("/", 1)[1], answer)

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """Config space comes with the serial number zeroed; every other file as redacted text."""
        answer = self._host.data(self._asked(path), limit)
        if not isinstance(answer, bytes):
            return self._said(answer)
        if path.endswith("/config"):
            return without_serial(answer)
        text, name = answer.decode("latin-1"), path.rsplit("/", 1)[1]
        if name in IDENTIFYING:
            return self._redactor.attribute(name, text.rstrip()).encode("latin-1")
        return self._redactor.text(text).encode("latin-1")

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As the Host's, each name redacted."""
        asked = self._asked(path)
        answer = self._host.names(asked)
        if not isinstance(answer, tuple):
            return self._said(answer)
        return tuple(sorted(self._name(asked, name) for name in answer))

    def link(self, path: str) -> Maybe[str]:
        """As the Host's, redacted."""
        return self._path(self._host.link(self._asked(path)))

    def real(self, path: str) -> Maybe[str]:
        """As the Host's, redacted."""
        return self._path(self._host.real(self._asked(path)))

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As the Host's; groups of device nodes are roles, an owner may be a person, with a group of the same name."""
        answer = self._host.stat(self._asked(path))
        if not isinstance(answer, NodeStat):
            return self._said(answer)
        owner = self._redactor.user(answer.owner)
        return replace(answer, owner=owner, group=owner if answer.group == answer.owner else answer.group)

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As the Host's, output redacted."""
        answer = self._host.run(argv, deadline)
        if not isinstance(answer, Ran):
            return self._said(answer)
        return Ran(answer.status, self._redactor.text(answer.stdout), self._redactor.text(answer.stderr))

    def log(self, name: str) -> Maybe[str]:
        """As the Host's, redacted."""
        answer = self._host.log(self._asked(name))
        return self._redactor.text(answer) if isinstance(answer, str) else self._said(answer)

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As the Host's, people's login names as aliases."""
        answer = self._host.holders(sought)
        if not isinstance(answer, Seen):
            return self._said(answer)
        return Seen(tuple(
            replace(file, user=self._redactor.user(file.user), command=self._redactor.text(file.command),
                    path=str(self._path(file.path)))
            for file in answer.files), answer.unseen)

    def _said(self, answer: T) -> T:
        """An error may name a path."""
        if isinstance(answer, Unknown):
            return Unknown(self._redactor.text(answer.why), answer.kind)  # type: ignore[return-value]
        return answer

    def _asked(self, path: str) -> str:
        """The path that is meant, where some of its names are aliases."""
        return "/".join(self._real.get(name, name) for name in path.split("/")) if self._real else path

    def _path(self, answer: Maybe[str]) -> Maybe[str]:
        if not isinstance(answer, str):
            return self._said(answer)
        parts = answer.split("/")
        return "/".join(self._name("/".join(parts[:at]), name) for at, name in enumerate(parts))

    def _name(self, folder: str, name: str) -> str:
        """A file's name as it is shown."""
        place = folder if folder in HOMES or folder == PODS else ""
        if (known := self._shown.get((place, name))) is not None:
            return known
        if place in HOMES:
            shown = self._redactor.user(name)
        elif place == PODS:
            shown = self._pod(name)
        else:
            shown = self._redactor.text(name) if len(name) > 3 else name
        self._shown[place, name] = shown
        if shown != name:
            self._real[shown] = name
        return shown

    def _pod(self, name: str) -> str:
        """NAMESPACE_POD_UID, the uid in the form in which it stands in a control group."""
        parts = name.split("_")
        if len(parts) != 3:
            return self._redactor.text(name)
        uid = self._redactor.text(f"pod{parts[2]}").removeprefix("pod")
        return "_".join((self._redactor.alias("pod", parts[0]), self._redactor.alias("pod", parts[1]), uid))
