"""Events to an HTTP endpoint: one POST each, CloudEvents 1.0 in structured JSON mode, over one kept connection."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import re
import ssl
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote

from .. import __version__
from ..errors import Exit, HotplugError
from .envelope import MEDIA_TYPE, Event, structured
from .sinks import Asked, Outcome, Outlet, wrong

TIMEOUT_S = 10.0        # of connecting, and of each wait for an answer
LONGEST_WAIT_S = 300.0  # what a Retry-After may ask for
# A 4xx says that this event is wrong and will not be taken ever, except where it speaks of the endpoint, of who we are
# or of the moment: those pass when somebody deploys, renews a token or waits, and losing events meanwhile helps nobody.
PASSING = {401, 403, 404, 405, 407, 408, 410, 421, 425, 429}


def open_webhook(asked: Asked) -> Outlet:
    """The sink of a https:// URL.

    http:// is for this machine only: in clear, everybody on the way could read serial numbers and make up events.
    """
    url, host = asked.url, asked.url.hostname
    whole = url.geturl()
    try:
        port = url.port
    except ValueError as error:
        raise wrong(whole, str(error)) from error
    if not host:
        raise wrong(whole, "it names no host")
    if asked.options:
        raise wrong(whole, "options are for kafka://", "leave options out")
    if url.scheme == "http" and not _this_machine(host):
        raise wrong(whole, "over http:// everybody on the way can read and change events", f"https://{host}...")
    bare = f"{url.scheme}://{url.netloc.rsplit('@', 1)[-1]}"
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    if re.search(r"[^\x21-\x7e]", target):
        raise wrong(whole, "it has a character that must be written as %XX")
    login = f"{unquote(url.username or '')}:{unquote(url.password or '')}" if "@" in url.netloc else None
    # The path of a webhook often is its secret, so people are shown the host alone.
    return Outlet(bare + target, bare, Webhook(
        host, port, target, asked.source, _context(asked) if url.scheme == "https" else None, login, asked.token_file))


class Webhook:
    """A Sink. Redirects are not followed: a redirected POST would become a GET, and "delivered" a lie."""

    def __init__(
        self, host: str, port: int | None, target: str, source: str, context: ssl.SSLContext | None,
        login: str | None = None, token_file: str | None = None, timeout: float = TIMEOUT_S,
    ) -> None:
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout, context=context) if context is not None
            else http.client.HTTPConnection(host, port, timeout=timeout)
        )
        self._target = target
        self._source = source
        self._login = login
        self._token_file = token_file
        self._closed = False
        self._busy = False

    def send(self, events: Sequence[Event]) -> Outcome:
        """POST each event in turn; the first that the endpoint cannot take now ends the turn."""
        self._busy = True
        try:
            return self._send(events)
        finally:
            self._busy = False
            if self._closed:
                self._connection.close()

    def close(self) -> None:
        """End the connection. One that a thread reads from is shut down: that wakes the thread, which closes it."""
        self._closed = True
        with suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(2)
        if not self._busy:
            self._connection.close()

    def _send(self, events: Sequence[Event]) -> Outcome:
        delivered, refused = [], []
        trouble, wait = None, 0.0
        for event in events:
            if self._closed:
                trouble = "the end of the run"
                break
            try:
                status, wait = self._post(structured(event, self._source))
            except (OSError, http.client.HTTPException, HotplugError) as error:
                self._connection.close()
                trouble = str(error) or type(error).__name__
                break
            if 200 <= status < 300:
                delivered.append(event.id)
            elif 400 <= status < 500 and status not in PASSING:
                refused.append((event.id, _said(status)))
            else:
                trouble = _said(status)
                break
        return Outcome(tuple(delivered), tuple(refused), trouble, wait)

    def _post(self, body: bytes) -> tuple[int, float]:
        """(status, seconds the endpoint wants to be left alone). A kept connection that was closed is opened again."""
        kept = self._connection.sock is not None
        try:
            return self._exchange(body)
        except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest):
            self._connection.close()
            if not kept or self._closed:
                raise
        return self._exchange(body)

    def _exchange(self, body: bytes) -> tuple[int, float]:
        headers = {"Content-Type": MEDIA_TYPE, "User-Agent": f"hotplugctl/{__version__}"}
        if (authorization := self._authorization()) is not None:
            headers["Authorization"] = authorization
        self._connection.request("POST", self._target, body, headers)
        with self._connection.getresponse() as answer:
            left = answer.read(65536)
            if len(left) == 65536:  # an answer nobody asked for; reading on could take for ever
                self._connection.close()
            after = answer.headers.get("Retry-After", "")
            return answer.status, min(float(after), LONGEST_WAIT_S) if after.isascii() and after.isdigit() else 0.0

    def _authorization(self) -> str | None:
        if self._token_file is not None:  # read each time, so that a renewed token is used without a restart
            return f"Bearer {_token(self._token_file)}"
        return f"Basic {base64.b64encode(self._login.encode()).decode()}" if self._login is not None else None


def _said(status: int) -> str:
    if 300 <= status < 400:
        return f"HTTP {status}: it answers with a redirect; name its target as the sink"
    return f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()


def _this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context(asked: Asked) -> ssl.SSLContext:
    """Certificates and names are verified, always; `ca` is for endpoints that the system's authorities do not know."""
    try:
        return ssl.create_default_context(cafile=asked.ca)
    except OSError as error:  # ssl.SSLError is one
        raise HotplugError(
            f"cannot use the certificates in {asked.ca}", why=error.strerror or str(error),
            hint="ca: names a PEM file", exit=Exit.USAGE,
        ) from error


def _token(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError) as error:
        raise HotplugError(f"cannot read the token in {path}", why=str(error), exit=Exit.USAGE) from error
