"""The API server, asked through kubectl. An answer is an object, the server's refusal, or Unknown; never a wait."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import quote

from ...errors import Exit, HotplugError
from ...host import Host, Ran
from ...host.child import run
from ...model import Kind, Unknown

Object: TypeAlias = Mapping[str, Any]

CALL_S = 5.0        # one call of kubectl; what it retries on its own (Retry-After of a 429) counts as well
START_S = 1.0       # of which the program itself needs to begin and to say why it failed
LEAST_S = 0.5
CONFIGURATIONS = (
    "/root/.kube/config", "/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf", "/etc/rancher/k3s/k3s.yaml",
)
ADMINISTRATOR = f"KUBECONFIG={CONFIGURATIONS[1]}"
DENIALS = {"Forbidden", "Unauthorized"}
# What kubectl prints of a Status. A 422 loses its reason there, and in 1.20 its sentence as well.
_STATUS = re.compile(r"^Error from server(?: \((?P<reason>\w+)\))?: (?P<said>.*)", re.MULTILINE | re.DOTALL)
_INVALID = re.compile(r"^The (?:request|\S+ \".*?\") is invalid(?:: (?P<said>.*))?", re.MULTILINE | re.DOTALL)
_LOGIN = re.compile(r"^error: (?P<said>.*\(Unauthorized\))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Refused:
    """The server's No: `reason` is its word (NotFound, Conflict, Forbidden, ...; empty = none), `said` its sentence."""

    reason: str
    said: str


Answer: TypeAlias = "Object | Refused | Unknown"


@dataclass(frozen=True, slots=True)
class Api:
    """kubectl, and the time until which it may be called. `config` is a $KUBECONFIG, None = there is none."""

    kubectl: str
    config: str | None
    missing: str = ""
    until: float = 0.0
    call_s: float = CALL_S

    @staticmethod
    def found(host: Host, kubectl: str, named: str) -> Api:
        """With the kubeconfig that the operator named, else the first of the usual ones."""
        asked = tuple(path for path in named.split(":") if path) or CONFIGURATIONS
        first = next((path for path in asked if host.data(path, 1) is not None), None)
        return Api(kubectl, named if named and first else first, f"no kubeconfig: {', '.join(asked)}")

    def within(self, seconds: float) -> Api:
        """The same, with so much time from now on."""
        return replace(self, until=time.monotonic() + seconds)

    @property
    def over(self) -> bool:
        """Is the time up?"""
        return time.monotonic() >= self.until

    def pause(self, seconds: float) -> None:
        """Wait, not longer than there is time."""
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))

    def get(self, path: str) -> Answer:
        """An object or a page of a list."""
        return self._call("get", path)

    def create(self, path: str, body: Object) -> Answer:
        """POST."""
        return self._call("create", path, body)

    def replace(self, path: str, body: Object) -> Answer:
        """PUT; with the resourceVersion that was read, a write in between is a Conflict."""
        return self._call("replace", path, body)

    def delete(self, path: str, body: Object) -> Answer:
        """DELETE, with its options."""
        return self._call("delete", path, body)

    def pages(self, path: str, limit: int) -> Iterator[Object | Refused | Unknown]:
        """The objects of a list, one by one, read `limit` at a time: a page has to fit in what a command may print.

        Ends with the Refused or Unknown that came instead of the rest.
        """
        rest = ""
        while True:
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{rest}")
            if not isinstance(page, Mapping):
                yield page
                return
            yield from (item for item in listed(page, "items") if isinstance(item, Mapping))
            more = at(page, "metadata", "continue")
            if not more:
                return
            rest = f"&continue={quote(str(more), safe='')}"

    def _call(self, verb: str, path: str, body: Object | None = None) -> Answer:
        if self.config is None:
            return Unknown(self.missing, Kind.IO)
        left = min(self.call_s, self.until - time.monotonic())
        if left < LEAST_S:
            return Unknown("no time was left to ask the API server", Kind.IO)
        argv = (self.kubectl, f"--request-timeout={max(left - START_S, LEAST_S / 2):.1f}s", verb, "--raw", path)
        # Without that, kubectl 1.20 loads the schema of the whole cluster before a replace, also of what is raw.
        unchecked = ("--validate=false",) if verb == "replace" else ()
        with_body = () if body is None else ("-f", "-", *unchecked)
        done = run((*argv, *with_body), left, stdin="" if body is None else json.dumps(body),
                   env={"KUBECONFIG": self.config})
        if isinstance(done, Unknown) and "did not answer" in done.why:      # it waits for the server, or for a login
            return Unknown(f"kubectl had no answer from the API server within {left:.1f} s", Kind.IO)
        return understood(done)


def understood(done: Ran | Unknown | None) -> Answer:
    """What kubectl brought back."""
    if isinstance(done, Unknown):
        return done
    if done is None:
        return Unknown("kubectl is not here", Kind.IO)
    if done.status == 0:
        try:
            answer = json.loads(done.stdout)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, Mapping):
            return answer
        return Unknown(f"the API server's answer is no object: {_short(done.stdout)!r}", Kind.IO)
    for pattern, reason in ((_STATUS, ""), (_INVALID, "Invalid"), (_LOGIN, "Unauthorized")):
        if match := pattern.search(done.stderr):
            said = _short(match["said"] or "the server takes it for invalid")
            return Refused(match.groupdict().get("reason") or reason, said)
    return Unknown(_short(done.stderr) or f"kubectl ended with {done.status}", Kind.IO)


def refusal(what: str, answer: Refused | Unknown, config: str | None) -> HotplugError:
    """The error of an answer that is none, with the next thing to type."""
    if isinstance(answer, Refused) and answer.reason in DENIALS:
        return HotplugError(
            what, why=answer.said, exit=Exit.DENIED,
            hint=f"{'KUBECONFIG=FILE' if config == CONFIGURATIONS[1] else ADMINISTRATOR} before the same command",
        )
    why = answer.said if isinstance(answer, Refused) else answer.why
    try_it = f"KUBECONFIG={config or 'FILE'} kubectl get nodes"
    hint = "the same command again" if isinstance(answer, Refused) else try_it
    return HotplugError(what, why=why, hint=hint, exit=Exit.FAILED)


def unknown(answer: Refused | Unknown) -> Unknown:
    """A refusal as something that could not be looked at."""
    if isinstance(answer, Unknown):
        return answer
    return Unknown(answer.said, Kind.DENIED if answer.reason in DENIALS else Kind.IO)


def at(value: Any, *keys: str) -> Any:
    """What lies at a path of keys; None where the server says nothing, or something else than objects on the way."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def listed(value: Any, *keys: str) -> tuple[Any, ...]:
    """The list at a path of keys; empty where there is none."""
    found = at(value, *keys)
    return tuple(found) if isinstance(found, list) else ()


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:297]}..."
