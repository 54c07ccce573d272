# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: hotplugctl with its imports done, forked for each command. Usage: warm.py SOCKET

Starting Python and its imports takes two to three seconds under emulation, and a test of one card asks a dozen times.
Everything else is the real command: arguments in, stdout, stderr and exit status out.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any

import hotplugctl.__main__ as entry
from hotplugctl import records

DIES_AT = "HOTPLUGCTL_LAB_DIES_AT"       # the command is killed right after so many records were written


def main(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            serve(connection)
        connection.close()


def serve(connection: socket.socket) -> None:
    """One command: the request brings arguments and environment as JSON, and three descriptors."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    descriptors = array.array("i")
    raw, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_LEN(3 * descriptors.itemsize))
    descriptors.frombytes(ancillary[0][2])
    request = json.loads(raw)
    pid = os.fork()
    if pid == 0:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir("/root")
        if DIES_AT in os.environ:
            make_mortal(int(os.environ.pop(DIES_AT)))
        code = 70
        try:
            code = entry.run(request["argv"])
            sys.stdout.flush()
        finally:
            os._exit(code)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def make_mortal(writes: int) -> None:
    """SIGKILL right after the record of that number is on the disk: between what is announced and what is done."""
    save, written = records.save, 0

    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal written
        save(*args, **kwargs)
        written += 1
        if written == writes:
            os.kill(os.getpid(), signal.SIGKILL)

    records.save = counted


if __name__ == "__main__":
    main(sys.argv[1])
