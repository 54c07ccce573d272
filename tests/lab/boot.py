# SPDX-License-Identifier: Apache-2.0
"""A booted guest: commands, files and conditions. What can be plugged into it is in guest.py."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from . import initramfs, kernel, machine
from .channel import Channel, ChannelError
from .qmp import Qmp

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
ENVIRONMENT = {
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
    "PATH": f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
T = TypeVar("T")
G = TypeVar("G", bound="BootedGuest")


class GuestError(Exception):
    """The guest did not come up, or died; the text ends with its last console lines."""


@dataclass(frozen=True)
class Result:
    """How a command in the guest ended, and what it wrote, byte for byte (surrogateescape)."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.stdout)


class CommandError(Exception):
    """A command that had to succeed did not."""

    def __init__(self, command: str, result: Result) -> None:
        super().__init__(f"{command!r} gave {result.status}\n{result.stdout}{result.stderr}")
        self.result = result


@dataclass(frozen=True)
class Job:
    """A command that runs in the guest while the test goes on."""

    guest: BootedGuest
    pid: int
    command: str

    def wait(self, timeout: float = 60) -> Result:
        """Its result; TimeoutError (with what it wrote) if it runs on, which does not stop it."""
        status, stdout, stderr = self._look(timeout)
        if status is None:
            raise TimeoutError(f"{self.command!r} still runs after {timeout:g} s\n{stdout}{stderr}")
        return Result(status, stdout, stderr)

    def peek(self) -> tuple[str, str]:
        """What it wrote so far: stdout, stderr."""
        return self._look(0)[1:]

    def running(self) -> bool:
        return self._look(0)[0] is None

    def signal(self, number: int) -> None:
        """To its whole session."""
        self.guest.ask("kill", pid=self.pid, number=int(number))

    def _look(self, timeout: float) -> tuple[int | None, str, str]:
        value = self.guest.ask("wait", timeout + 30, pid=self.pid, seconds=timeout)
        return value["status"], _text(value["stdout"]), _text(value["stderr"])


class BootedGuest:
    """A virtual machine that runs on this machine's own file system, in a copy it may write to.

    Use it as a context manager. Host files are seen as they were when the guest first looked at them;
    the checkout's are looked at afresh. /tmp and /run are the guest's own, empty at boot.
    """

    def __init__(self, slots: tuple[machine.Slot, ...] = machine.SLOTS, *, acpi_hotplug: bool = False,
                 shpchp: bool = False, memory_mib: int = 1024, append: str = "", boot_timeout: float = 120) -> None:
        self.slots = {slot.number: slot for slot in slots}
        self.acpi_hotplug = acpi_hotplug
        self._shpchp = shpchp
        self._memory_mib = memory_mib
        self._append = append
        self._boot_timeout = boot_timeout

    def __enter__(self: G) -> G:
        # Software emulation now and then runs an instruction that another processor is patching, and the kernel
        # dies before it has done anything of a test (seen in sched_clock_cpu, whose static branch changes at boot).
        try:
            return self._boot()
        except GuestError as error:
            if "Kernel panic" not in str(error):
                raise
            print(f"booted again: {error}")
        return self._boot()

    def _boot(self: G) -> G:
        self.folder = Path(tempfile.mkdtemp(prefix="hotplugctl-lab-"))
        began = time.monotonic()
        try:
            self._launch(kernel.prepare())
            self.qmp = Qmp(self.folder / "qmp", timeout=20)
            self._agent = Channel(self.folder / "agent", timeout=20)
            self._agent.wait_for(lambda: self._agent.events or None, self._boot_timeout, "the guest's agent")
        except BaseException as error:
            tail = self.console()[-3000:]
            self.close()
            if isinstance(error, TimeoutError | ChannelError):
                raise GuestError(f"the guest did not boot: {error}\n{tail}") from error
            raise
        self.boot_seconds = time.monotonic() - began
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Power the guest off, at once, and forget it."""
        if hasattr(self, "_qemu"):
            self._qemu.kill()
            self._qemu.wait()
        for name in ("_agent", "qmp"):
            if hasattr(self, name):
                getattr(self, name).close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def console(self) -> str:
        """All the kernel said on the serial console."""
        try:
            return (self.folder / "console.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    # Commands

    def start(self, command: str, *, env: dict[str, str] | None = None, stdin: str = "") -> Job:
        """Begin a bash command as root in /root, in a session of its own."""
        given = {**ENVIRONMENT, **(env or {})}
        pid = self.ask("start", command=command, env=given, stdin=_packed(stdin.encode()))
        return Job(self, pid, command)

    def run(self, command: str, timeout: float = 60, check: bool = True, *, env: dict[str, str] | None = None,
            stdin: str = "") -> Result:
        """Run a bash command to its end. One that outlives `timeout` is killed and raises TimeoutError."""
        job = self.start(command, env=env, stdin=stdin)
        try:
            result = job.wait(timeout)
        except TimeoutError:
            job.signal(signal.SIGKILL)
            raise
        if check and result.status:
            raise CommandError(command, result)
        return result

    def command(self, *args: str) -> str:
        """The shell command that runs this checkout's hotplugctl, for `start`."""
        return shlex.join([f"{sys.prefix}/bin/hotplugctl", *args])

    def hotplugctl(self, *args: str, timeout: float = 60, check: bool = False,
                   env: dict[str, str] | None = None) -> Result:
        """Run this checkout's hotplugctl, its imports already done; any exit status is fine unless `check`.

        `run(command(...))` starts it as a shell does, some three seconds slower.
        """
        answer = self.ask("warm", timeout + 10, python=f"{sys.prefix}/bin/python", script=str(HERE / "warm.py"),
                          argv=list(args), env={**ENVIRONMENT, **(env or {})}, seconds=timeout)
        if answer["status"] is None:
            raise TimeoutError(f"hotplugctl {shlex.join(args)} did not end within {timeout:g} s")
        out, err = (base64.b64decode(answer[name]).decode(errors="surrogateescape") for name in ("stdout", "stderr"))
        result = Result(answer["status"], out, err)
        if check and result.status:
            raise CommandError(f"hotplugctl {shlex.join(args)}", result)
        return result

    # Files

    def read(self, path: str) -> str:
        """A file's text; OSError as in the guest. No process is started, so this is quick."""
        return self.fetch(path).decode(errors="surrogateescape")

    def fetch(self, path: str) -> bytes:
        """A file's bytes."""
        return base64.b64decode(self.ask("read", path=path))

    def write(self, path: str, text: str | bytes, timeout: float = 30) -> None:
        """In a single write(2). What may hang in the kernel is better written by `run` or `start`."""
        raw = text if isinstance(text, bytes) else text.encode()
        self.ask("write", timeout, path=path, data=_packed(raw))

    def find(self, pattern: str) -> list[str]:
        """The paths that match, sorted."""
        found: list[str] = self.ask("find", pattern=pattern)
        return found

    def dmesg(self) -> str:
        """The kernel log since the last clean()."""
        return self.run("dmesg").stdout

    def wait(self, condition: Callable[[], T], timeout: float, what: str) -> T:
        """The first true value of `condition`; TimeoutError names `what` and shows the end of the kernel log."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout:g} s: {what}\n{self.dmesg()[-2000:]}")
            time.sleep(0.05)
        return value

    def wait_for_log(self, text: str, timeout: float = 20) -> str:
        """The first kernel line that holds `text`."""
        return self.wait(lambda: next((line for line in self.dmesg().splitlines() if text in line), ""), timeout,
                         f"the kernel line {text!r}")

    def ask(self, op: str, timeout: float = 30, **arguments: object) -> Any:
        """One request to the agent; see agent.py for the ops."""
        try:
            reply = self._agent.ask({"op": op, **arguments}, timeout, f"{op} {arguments}"[:300])
        except ChannelError as gone:
            raise GuestError(f"{gone}\n{self.console()[-3000:]}") from None
        if "errno" in reply:
            raise OSError(reply["errno"], reply["error"], reply["path"] or str(arguments.get("path", "")))
        if "error" in reply:
            raise RuntimeError(f"{op}: {reply['error']}")
        return reply["value"]

    def _launch(self, booted: kernel.Kernel) -> None:
        python = os.path.realpath(sys.executable)
        needed = [str(PROJECT), sys.prefix, sys.base_prefix, str(booted.modules), str(booted.driver.parent)]
        self.driver_file = booted.driver
        settings = {
            "PYTHON": python,
            "AGENT": str(HERE / "agent.py"),
            "PROJECT": str(PROJECT),
            "PREFIX": sys.prefix,
            "MODULES": str(booted.modules),
            "VENDORS": str(HERE / "vendors.d"),
            "KEEP": shlex.join(sorted({path for path in needed if path.startswith(("/tmp/", "/run/"))})),
        }
        (self.folder / "initrd").write_bytes(initramfs.build(booted, settings))
        line = machine.command(booted, tuple(self.slots.values()), PROJECT, self.folder, acpi_hotplug=self.acpi_hotplug,
                               shpchp=self._shpchp, memory_mib=self._memory_mib, append=self._append)
        with (self.folder / "qemu.log").open("wb") as log:
            # Nothing of the lab outlives the process that started it, however that ends.
            self._qemu = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *line], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log)


def _packed(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _text(packed: str) -> str:
    return base64.b64decode(packed).decode(errors="surrogateescape")
