# SPDX-License-Identifier: Apache-2.0
"""Runs inside the guest: carries out what the host asks for over a virtio serial port.

One JSON object a line each way. A request has `id`, `op` and the op's own keys; the answer repeats `id`
and has `value`, or `error`. Requests are served side by side, so one that hangs in the kernel stops no
other. Output of commands goes through files: a command that leaves a child behind still ends.
"""

from __future__ import annotations

import array
import base64
import glob
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PORT = "lab.agent"
MARK = "HOTPLUGCTL_LAB_JOB"
SPOOL = "/run/lab/jobs"
jobs: dict[int, subprocess.Popen[bytes]] = {}
WARM = "/run/lab/warm.sock"
speaking = threading.Lock()
warming = threading.Lock()


def start(command: str, env: dict[str, str], stdin: str = "") -> int:
    """Begin a command in a session of its own; its pid names it from here on."""
    os.makedirs(SPOOL, exist_ok=True)
    serial = f"{SPOOL}/{time.monotonic_ns()}"
    with open(serial + ".in", "wb") as file:
        file.write(base64.b64decode(stdin))
    with open(serial + ".in", "rb") as given, open(serial + ".out", "wb") as out, open(serial + ".err", "wb") as err:
        job = subprocess.Popen(["/bin/bash", "-c", command], stdin=given, stdout=out, stderr=err, cwd="/root",
                               env={**os.environ, **env, MARK: serial}, start_new_session=True)
    for end in ("in", "out", "err"):
        os.rename(f"{serial}.{end}", f"{SPOOL}/{job.pid}.{end}")
    jobs[job.pid] = job
    return job.pid


def wait(pid: int, seconds: float) -> dict[str, Any]:
    """What a command said so far, and its exit status unless it still runs after `seconds`."""
    status: int | None = None
    with suppress(subprocess.TimeoutExpired):
        status = jobs[pid].wait(seconds)
    return {"status": status, "stdout": read(f"{SPOOL}/{pid}.out"), "stderr": read(f"{SPOOL}/{pid}.err")}


def warm(python: str, script: str, argv: list[str], env: dict[str, str], seconds: float) -> dict[str, Any]:
    """hotplugctl by a process that has its imports behind it; the same answer as `wait` gives of a command."""
    with warming:
        if not os.path.exists(WARM):
            server = subprocess.Popen([python, script, WARM], stdout=subprocess.PIPE, cwd="/root")
            if server.stdout is None or server.stdout.readline() != b"ready\n":
                raise OSError(f"{script} did not start")
    serial = f"{SPOOL}/{time.monotonic_ns()}"
    os.makedirs(SPOOL, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as peer, open(os.devnull, "rb") as given, \
            open(serial + ".out", "wb") as out, open(serial + ".err", "wb") as err:
        peer.connect(WARM)
        descriptors = array.array("i", [given.fileno(), out.fileno(), err.fileno()])
        peer.sendmsg([json.dumps({"argv": argv, "env": env}).encode()],
                     [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        peer.settimeout(seconds)
        status: int | None = None
        with peer.makefile("rb") as lines:
            pid = int(lines.readline())
            try:
                status = int(lines.readline())
            except TimeoutError:
                kill_one(pid)
    answer = {"status": status, "stdout": read(serial + ".out"), "stderr": read(serial + ".err")}
    for end in ("out", "err"):
        os.unlink(f"{serial}.{end}")
    return answer


def kill(pid: int, number: int) -> None:
    """Signal the whole session of a command."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def sweep() -> list[int]:
    """Kill every process that descends from a command; the pids of those that stay, as in D state."""
    for _ in range(10):
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if descends(pid)]
        for pid in left:
            kill_one(pid)
        if not left:
            break
        for job in jobs.values():
            job.poll()
        time.sleep(0.05)
    for pid in [pid for pid, job in jobs.items() if job.poll() is not None]:
        del jobs[pid]
        for path in glob.glob(f"{SPOOL}/{pid}.*"):
            os.unlink(path)
    return left


def descends(pid: int) -> bool:
    """Whether the mark of a command is in its environment, or its session is a command's; not if it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            dead = file.read().rpartition(b")")[2].split()[0] in b"ZX"
        with open(f"/proc/{pid}/environ", "rb") as file:
            marked = f"{MARK}=".encode() in file.read()
        return not dead and (marked or os.getsid(pid) in jobs)
    except OSError:
        return False


def kill_one(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def read(path: str) -> str:
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()


def write(path: str, data: str) -> None:
    """In a single write(2), as sysfs wants it."""
    raw = base64.b64decode(data)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if os.write(handle, raw) != len(raw):
            raise OSError(f"short write to {path}")
    finally:
        os.close(handle)


def find(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))


OPS: dict[str, Callable[..., Any]] = {
    "start": start, "wait": wait, "kill": kill, "sweep": sweep, "read": read, "write": write, "find": find,
    "warm": warm,
}


def open_port() -> int:
    while True:
        for path in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(path) as file:
                if file.read().strip() == PORT:
                    return os.open("/dev/" + path.split("/")[-2], os.O_RDWR)
        time.sleep(0.05)


def serve(port: int, request: dict[str, Any]) -> None:
    number = request.pop("id")
    try:
        answer = {"id": number, "value": OPS[request.pop("op")](**request)}
    except OSError as error:
        answer = {"id": number, "error": error.strerror or str(error), "errno": error.errno,
                  "path": str(error.filename or "")}
    except Exception as error:  # noqa: BLE001 - the host is told, whatever it is
        answer = {"id": number, "error": repr(error)}
    say(port, answer)


def say(port: int, answer: dict[str, Any]) -> None:
    raw = memoryview(json.dumps(answer).encode() + b"\n")
    with speaking:
        while raw:
            raw = raw[os.write(port, raw):]


def main() -> None:
    port = open_port()
    say(port, {"event": "ready"})
    pending = bytearray()
    while True:
        got = os.read(port, 65536)
        if not got:  # nobody is connected on the host's side
            time.sleep(0.05)
            continue
        pending += got
        if b"\n" in got:
            *lines, pending = pending.split(b"\n")
            for line in lines:
                threading.Thread(target=serve, args=(port, json.loads(line)), daemon=True).start()


if __name__ == "__main__":
    main()
