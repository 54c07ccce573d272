# SPDX-License-Identifier: Apache-2.0
"""JSON lines over one of QEMU's sockets, with deadlines: the agent in the guest speaks so, and so does QMP."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class ChannelError(Exception):
    """The other side is gone."""


class Channel:
    """One connection. Replies are found by their id, whatever else is in flight; all other messages are
    kept in `events`, in order, from the first to the last."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.events: list[dict[str, Any]] = []
        self._replies: dict[int, dict[str, Any]] = {}
        self._closed = False
        self._serial = 0
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._path = path
        self._socket = _connect(path, timeout)
        self._reader = threading.Thread(target=self._read, daemon=True, name=path.name)
        self._reader.start()

    def ask(self, request: dict[str, Any], timeout: float, what: str) -> dict[str, Any]:
        """The reply to `request`; TimeoutError after `timeout` seconds, ChannelError if none can come."""
        with self._sending:
            self._serial += 1
            serial = self._serial
            try:
                self._socket.sendall(json.dumps({**request, "id": serial}).encode() + b"\n")
            except OSError:
                raise ChannelError(f"{self._path.name} is closed; wanted {what}") from None
        return self.wait_for(lambda: self._replies.pop(serial, None), timeout, what)

    def wait_for(self, look: Callable[[], T | None], timeout: float, what: str) -> T:
        """What `look` finds, tried again after each message."""
        deadline = time.monotonic() + timeout
        with self._news:
            while (found := look()) is None:
                left = deadline - time.monotonic()
                if self._closed:
                    raise ChannelError(f"{self._path.name} is closed; waited for {what}")
                if left <= 0:
                    raise TimeoutError(f"{what}: nothing came in {timeout:g} s")
                self._news.wait(left)
        return found

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(5)
        self._socket.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    message = json.loads(line)
                    with self._news:
                        if "id" in message:
                            self._replies[message["id"]] = message
                        else:
                            self.events.append(message)
                        self._news.notify_all()
        except OSError:
            pass  # reset by QEMU's end: the same as closed
        finally:
            with self._news:
                self._closed = True
                self._news.notify_all()


def _connect(path: Path, timeout: float) -> socket.socket:
    """A stream to a socket that QEMU is about to make."""
    deadline = time.monotonic() + timeout
    while True:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(str(path))
            return stream
        except OSError:
            stream.close()
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing listens at {path} after {timeout:g} s") from None
            time.sleep(0.02)
